// Package strict has stand-ins for providers that cannot run in a test:
// HTTP handlers that take a request apart by the provider's published API
// reference, refuse what the provider refuses, in its own words, and answer in
// its own form.
//
// They are written from the references alone, not from what Ghostline sends:
// each file names what it was written from. So a test may believe them where it
// may not believe a fake that was made to fit. A test looks at
//
//   - [Provider.Violations]: what the reference does not allow, whether or not
//     the provider would have noticed. A test fails if there is any.
//   - [Provider.Unknown]: fields that the reference does not have and that the
//     provider skips without a word. A test decides.
//   - [Provider.Requests]: what arrived.
//   - [Provider.Cancelled]: how many clients left, and when.
//
// What a provider answers comes from the script that the test gives with
// [Provider.Next], else it says what its model was given to read.
//
// So a test of a unit of vLLM begins with
//
//	provider := strict.VLLM(strict.Options{Key: "key", Model: "code"})
//	script := strict.Say("héllo", " world")
//	script.Fail = &strict.Failure{After: 1}
//	provider.Next(script)
//	server := httptest.NewServer(provider)
//
// The handlers serve whatever version of HTTP they are put behind, and send
// every event on its own.
//
// [GitHub] is the same for an identity provider: GitHub's REST API and its OAuth
// device flow, written from docs.github.com. Who there is in it is said with
// [GitHub.AddUser], [GitHub.AddOrg], [GitHub.Join] and so on, what goes wrong with
// [GitHub.Fail].
//
//	github := strict.NewGitHub(strict.GitHubOptions{})
//	github.AddUser(strict.GitHubUser{Login: "mona"})
//	github.AddOrg(strict.GitHubOrg{Login: "acme"})
//	github.Join("mona", "acme", strict.GitHubMember{})
//	token := github.AddToken(strict.GitHubToken{Login: "mona", Scopes: []string{"read:org"}})
//	server := httptest.NewServer(github)
package strict
