package client

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestTokenErrors(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"refused":       {400, `{"error":"invalid_request","error_description":"unknown\u001b[31m token"}`, "the issuer refused the OAuth token (unknown[31m token): run `ghostline login`"},
		"another word":  {403, `{"error":"access_denied"}`, "run `ghostline login`"},
		"unknown":       {400, `{"error":"invalid_request","reason":"unknown"}`, "run `ghostline login`"},
		"denied":        {400, `{"error":"invalid_request","error_description":"You have left.","reason":"denied"}`, "the issuer gives you no token (You have left.): ask whoever runs it"},
		"bad request":   {413, `{"error":"invalid_request","error_description":"too long","reason":"bad_request"}`, "the issuer cannot use the request (too long)"},
		"audience":      {400, `{"error":"invalid_target"}`, "check the audience"},
		"wrong address": {404, `<html>`, "check the issuer's URL"},
		"redirect":      {302, ``, "the issuer answered 302"},
		"not JSON":      {200, `<html>`, "not the JSON object of RFC 8693"},
		"no token":      {200, `{"token_type":"Bearer","expires_in":1500}`, "access_token is missing"},
		"token of text": {200, `{"access_token":"a\nb","token_type":"Bearer","expires_in":1500}`, "not printable ASCII"},
		"other type":    {200, `{"access_token":"a","token_type":"DPoP","expires_in":1500}`, `token_type is "DPoP", want Bearer`},
		"no life":       {200, `{"access_token":"a","token_type":"Bearer"}`, "expires_in is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &issuer{}
				s, _ := i.source(t, new(logBuffer))
				i.fail(test.status, test.body, "")
				_, err := s.Token(t.Context())
				if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), testOAuth) {
					t.Errorf("error %v, want one that says %q", err, test.want)
				}
			})
		})
	}
}

func TestTokenOptions(t *testing.T) {
	for want, o := range map[string]TokenOptions{
		"issuer URL \"\" should look like":   {OAuthToken: "x"},
		"should look like https://":          {IssuerURL: "ftp://h", OAuthToken: "x"},
		"issuer URL cannot be parsed":        {IssuerURL: "https://u:secret@h:x", OAuthToken: "x"},
		"must have no user":                  {IssuerURL: "https://u:secret@h", OAuthToken: "x"},
		"issuer URL \"http://h\" would send": {IssuerURL: "http://h", OAuthToken: "secret"},
		"no OAuth token for the issuer htt":  {IssuerURL: "https://h"},
	} {
		if _, err := NewTokenSource(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
