package strict

import "fmt"

// gitHubURLs are the bases of the URLs in answers.
type gitHubURLs struct{ api, html string }

func (g *GitHub) urls(got *GitHubRequest) gitHubURLs {
	if g.options.EnterpriseServer {
		return gitHubURLs{api: got.base + enterprisePrefix, html: got.base}
	}
	return gitHubURLs{api: got.base, html: "https://github.com"}
}

const gitHubEpoch = "2011-01-25T18:44:36Z" // when everything but tokens was made

// user is the schema "simple-user".
func (u gitHubURLs) user(user *GitHubUser) map[string]any {
	of := u.api + "/users/" + user.Login
	return map[string]any{
		"login": user.Login, "id": user.ID, "node_id": nodeID("User", user.ID), "gravatar_id": "",
		"avatar_url": fmt.Sprintf("https://avatars.githubusercontent.com/u/%d?v=4", user.ID),
		"url":        of, "html_url": u.html + "/" + user.Login,
		"followers_url": of + "/followers", "following_url": of + "/following{/other_user}",
		"gists_url": of + "/gists{/gist_id}", "starred_url": of + "/starred{/owner}{/repo}",
		"subscriptions_url": of + "/subscriptions", "organizations_url": of + "/orgs", "repos_url": of + "/repos",
		"events_url": of + "/events{/privacy}", "received_events_url": of + "/received_events",
		"type": "User", "user_view_type": "public", "site_admin": false,
	}
}

// profile is the schema "public-user". An e-mail address is there only if it is public.
func (u gitHubURLs) profile(user *GitHubUser) map[string]any {
	p := u.user(user)
	for _, name := range []string{"company", "blog", "location", "hireable", "bio", "twitter_username", "notification_email"} {
		p[name] = nil
	}
	for _, name := range []string{"public_repos", "public_gists", "followers", "following"} {
		p[name] = 0
	}
	p["name"], p["email"] = orNothing(user.Name), orNothing(user.Email)
	p["created_at"], p["updated_at"] = gitHubEpoch, gitHubEpoch
	return p
}

// addPrivate makes a profile one of the schema "private-user".
func (u gitHubURLs) addPrivate(profile map[string]any) {
	for _, name := range []string{"private_gists", "total_private_repos", "owned_private_repos", "disk_usage", "collaborators"} {
		profile[name] = 0
	}
	profile["two_factor_authentication"], profile["user_view_type"] = true, "private"
	profile["plan"] = map[string]any{"name": "free", "space": 976562499, "collaborators": 0, "private_repos": 10000}
}

// org is the schema "organization-simple".
func (u gitHubURLs) org(org *gitHubOrg) map[string]any {
	of := u.api + "/orgs/" + org.Login
	return map[string]any{
		"login": org.Login, "id": org.ID, "node_id": nodeID("Organization", org.ID), "url": of,
		"repos_url": of + "/repos", "events_url": of + "/events", "hooks_url": of + "/hooks", "issues_url": of + "/issues",
		"members_url": of + "/members{/member}", "public_members_url": of + "/public_members{/member}",
		"avatar_url": fmt.Sprintf("https://avatars.githubusercontent.com/u/%d?v=4", org.ID), "description": nil,
	}
}

// membership is the schema "org-membership".
func (u gitHubURLs) membership(org *gitHubOrg, user *GitHubUser, m GitHubMember) map[string]any {
	return map[string]any{
		"url": u.api + "/orgs/" + org.Login + "/memberships/" + user.Login, "state": m.State, "role": m.Role,
		"direct_membership": true, "enterprise_teams_providing_indirect_membership": []string{},
		"organization_url": u.api + "/orgs/" + org.Login, "organization": u.org(org), "user": u.user(user),
		"permissions": map[string]any{"can_create_repository": true},
	}
}

// team is what the schemas "team-simple" and "team-full" have in common.
func (u gitHubURLs) team(org *gitHubOrg, team *gitHubTeam) map[string]any {
	of := fmt.Sprintf("%s/organizations/%d/team/%d", u.api, org.ID, team.ID)
	privacy := "closed"
	if team.Secret {
		privacy = "secret"
	}
	return map[string]any{
		"id": team.ID, "node_id": nodeID("Team", team.ID), "url": of, "html_url": u.html + "/orgs/" + org.Login + "/teams/" + team.Slug,
		"name": team.Name, "slug": team.Slug, "description": nil, "privacy": privacy, "permission": "pull",
		"notification_setting": "notifications_enabled", "members_url": of + "/members{/member}", "repositories_url": of + "/repos",
		"type": "organization", "organization_id": org.ID,
	}
}

// fullTeam is the schema "team-full".
func (u gitHubURLs) fullTeam(org *gitHubOrg, team *gitHubTeam) map[string]any {
	t := u.team(org, team)
	t["parent"] = nil
	if parent := org.team(team.Parent); parent != nil {
		t["parent"] = u.team(org, parent)
	}
	t["members_count"], t["repos_count"] = len(team.members), 0
	t["created_at"], t["updated_at"] = gitHubEpoch, gitHubEpoch
	o := u.org(org)
	for _, name := range []string{"public_repos", "public_gists", "followers", "following"} {
		o[name] = 0
	}
	o["name"], o["html_url"], o["type"] = org.Login, u.html+"/"+org.Login, "Organization"
	o["has_organization_projects"], o["has_repository_projects"], o["is_verified"] = true, true, false
	o["created_at"], o["updated_at"], o["archived_at"] = gitHubEpoch, gitHubEpoch, nil
	t["organization"] = o
	return t
}

func orNothing(s string) any {
	if s == "" {
		return nil
	}
	return s
}
