package tokenissuer

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ghostline-dev/ghostline/tokenissuer/keys"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func (i *issuer) askKeys(method string, tags ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, pathKeys, nil)
	r.Header["If-None-Match"] = tags
	// Honoured, it would hide a second change within a second.
	r.Header.Set("If-Modified-Since", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	return i.do(r)
}

func TestKeySetIsSentOnce(t *testing.T) {
	i := newIssuer(t)
	first := i.askKeys(http.MethodGet)
	wantAnswer(t, first, http.StatusOK, "public, max-age=30", "application/jwk-set+json")
	tag := first.Header().Get("ETag")
	if modified, err := http.ParseTime(first.Header().Get("Last-Modified")); err != nil || modified.After(time.Now()) {
		t.Errorf("Last-Modified %v, %v", modified, err)
	}
	for _, tc := range []struct {
		tags   []string
		status int
	}{
		{[]string{tag}, http.StatusNotModified},
		{[]string{"W/" + tag}, http.StatusNotModified},
		{[]string{`"x", ` + tag + `, "y"`}, http.StatusNotModified},
		{[]string{`"x"`, tag}, http.StatusNotModified},
		{[]string{"*"}, http.StatusNotModified},
		{[]string{`"x"`}, http.StatusOK},
		{[]string{strings.Trim(tag, `"`)}, http.StatusOK},
		{[]string{""}, http.StatusOK},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			answer := i.askKeys(method, tc.tags...)
			if answer.Code != tc.status || answer.Header().Get("ETag") != tag || answer.Header().Get("Cache-Control") != "public, max-age=30" {
				t.Errorf("%s %q: %d %v, want %d", method, tc.tags, answer.Code, answer.Header(), tc.status)
			}
			if tc.status == http.StatusNotModified && answer.Body.Len() > 0 {
				t.Errorf("%s %q: a body with it: %s", method, tc.tags, answer.Body)
			}
		}
	}
}

// TestKeysChangeWhileServing withdraws the only key of a running issuer.
func TestKeysChangeWhileServing(t *testing.T) {
	config := testConfig(t)
	r := start(t, config)
	response, before := r.get(t, r.cleartext+pathKeys)
	tag := response.Header.Get("ETag")
	files, err := filepath.Glob(filepath.Join(config.Keys.Directory, "*.pem"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		response, after := r.get(t, r.cleartext+pathKeys)
		if after != before && response.Header.Get("ETag") != tag {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the key is still published after 20s")
		}
	}
	if response, text := r.get(t, r.admin+"/readyz"); response.StatusCode != http.StatusOK {
		t.Errorf("/readyz: %d %s", response.StatusCode, text)
	}
}

// TestWithoutAKey is an issuer all of whose keys were withdrawn, and that cannot
// make another.
func TestWithoutAKey(t *testing.T) {
	i := newIssuer(t)
	i.ring = func() *keys.Ring { return &keys.Ring{} }
	wantOAuthError(t, i.do(post(goodForm().Encode())), http.StatusInternalServerError, "server_error")
	if answer := i.askKeys(http.MethodGet); strings.TrimSpace(answer.Body.String()) != `{"keys":[]}` {
		t.Errorf("published: %d %s", answer.Code, answer.Body)
	}
	if err := i.canSign(); err == nil {
		t.Error("it says that it can sign")
	}
}

func TestKeyMetrics(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	ring := &keys.Ring{Rotation: at(400), Keys: []keys.Published{
		{Stage: keys.Leaving, Made: at(50)}, {Stage: keys.Leaving, Made: at(100)}, {Stage: keys.Signing, Made: at(200)}, {Stage: keys.Waiting, Made: at(300)},
	}}
	m := newKeyMetrics(func() *keys.Ring { return ring }, func() keys.Status { return keys.Status{Loaded: true, Leads: true} })
	want := `
# HELP ghostline_issuer_key_created_timestamp_seconds When the newest key of a stage was made.
# TYPE ghostline_issuer_key_created_timestamp_seconds gauge
ghostline_issuer_key_created_timestamp_seconds{stage="leaving"} 100
ghostline_issuer_key_created_timestamp_seconds{stage="signing"} 200
ghostline_issuer_key_created_timestamp_seconds{stage="waiting"} 300
# HELP ghostline_issuer_keys Keys that are published.
# TYPE ghostline_issuer_keys gauge
ghostline_issuer_keys 0
# HELP ghostline_issuer_keys_last_load_successful 1 if the key store was read and all in it is good, 0 if the last good keys are in use.
# TYPE ghostline_issuer_keys_last_load_successful gauge
ghostline_issuer_keys_last_load_successful 1
# HELP ghostline_issuer_keys_last_rotation_successful 0 if the last change that was due to the keys failed, else 1.
# TYPE ghostline_issuer_keys_last_rotation_successful gauge
ghostline_issuer_keys_last_rotation_successful 0
# HELP ghostline_issuer_keys_leader 1 if it is this issuer that rotates the keys.
# TYPE ghostline_issuer_keys_leader gauge
ghostline_issuer_keys_leader 1
# HELP ghostline_issuer_keys_next_rotation_timestamp_seconds When the key that signs is to be followed by the next.
# TYPE ghostline_issuer_keys_next_rotation_timestamp_seconds gauge
ghostline_issuer_keys_next_rotation_timestamp_seconds 400
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
