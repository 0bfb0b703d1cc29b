package secretstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// apiServer plays what this store needs of a Kubernetes API server, over HTTP and
// by its documentation: objects have a resourceVersion, a write that names another
// one is a conflict (409), and a merge patch takes away what it sets to null.
type apiServer struct {
	url string

	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
	asked   []string // METHOD PATH
	down    bool
}

func startAPI(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: s.url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if s.down {
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	}
	var body map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			refuse(w, http.StatusBadRequest, "BadRequest")
			return
		}
	}
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + body["metadata"].(map[string]any)["name"].(string)
	}
	object, there := s.objects[path]
	given, _ := meta(body)["resourceVersion"].(string)
	switch {
	case r.Method == http.MethodPost && there:
		refuse(w, http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && !there:
		refuse(w, http.StatusNotFound, "NotFound")
		return
	case there && given != "" && given != meta(object)["resourceVersion"]:
		refuse(w, http.StatusConflict, "Conflict")
		return
	}
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		s.put(path, body)
	case http.MethodPatch:
		if r.Header.Get("Content-Type") != "application/merge-patch+json" {
			refuse(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType")
			return
		}
		s.put(path, merge(object, body))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.objects[path])
}

func meta(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

func (s *apiServer) put(path string, object map[string]any) {
	s.version++
	meta(object)["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[path] = object
}

// merge is RFC 7386's.
func merge(object, patch map[string]any) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range patch {
		inner, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, name)
		case nested:
			old, _ := out[name].(map[string]any)
			out[name] = merge(old, inner)
		default:
			out[name] = value
		}
	}
	return out
}

func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, status)
}

const secretPath = "/api/v1/namespaces/ghostline/secrets/signing-keys"

// entries are the names of what the Secret holds.
func (s *apiServer) entries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, _ := s.objects[secretPath]["data"].(map[string]any)
	var names []string
	for name := range data {
		names = append(names, name)
	}
	return names
}

// edit changes the Secret's data as a person does.
func (s *apiServer) edit(change func(data map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret := s.objects[secretPath]
	if secret == nil {
		secret = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "signing-keys", "namespace": "ghostline"}}
	}
	data, _ := secret["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	change(data)
	secret["data"] = data
	s.put(secretPath, secret)
}

func (s *apiServer) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// holder is who has the Lease.
func (s *apiServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, object := range s.objects {
		if strings.HasSuffix(path, "/leases/signing-keys") {
			spec, _ := object["spec"].(map[string]any)
			holder, _ := spec["holderIdentity"].(string)
			return holder
		}
	}
	return ""
}
