package tokenissuer

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestClientAddress(t *testing.T) {
	e := newEdges([]string{"10.0.0.0/8", "2001:db8:e::/48"})
	for _, tc := range []struct {
		name, peer       string
		listed, standard []string
		want             string
	}{
		{"no edge", "198.51.100.1:7", []string{"203.0.113.9"}, []string{"for=203.0.113.9"}, "198.51.100.1"},
		{"an edge that says nothing", "10.1.1.1:7", nil, nil, "10.1.1.1"},
		{"IPv4 as IPv6", "[::ffff:10.1.1.1]:7", []string{"::ffff:203.0.113.9"}, nil, "203.0.113.9"},
		{"one", "10.1.1.1:7", []string{"203.0.113.9"}, nil, "203.0.113.9"},
		{"made up by the client", "10.1.1.1:7", []string{"192.0.2.1, 203.0.113.9"}, nil, "203.0.113.9"},
		{"made up in a line of its own", "10.1.1.1:7", []string{"192.0.2.1", "203.0.113.9"}, nil, "203.0.113.9"},
		{"several edges", "10.1.1.1:7", []string{"192.0.2.1,203.0.113.9,10.2.2.2 , 10.3.3.3"}, nil, "203.0.113.9"},
		{"with a port", "10.1.1.1:7", []string{"203.0.113.9:1234"}, nil, "203.0.113.9"},
		{"IPv6", "[2001:db8:e::1]:7", []string{"2001:db8:1::2"}, nil, "2001:db8:1::2"},
		{"IPv6 with a port", "10.1.1.1:7", []string{"[2001:db8:1::2]:443"}, nil, "2001:db8:1::2"},
		{"IPv6 with a zone", "10.1.1.1:7", []string{"fe80::1%eth0"}, nil, "fe80::1"},
		{"from within", "10.1.1.1:7", []string{"10.9.9.9"}, nil, "10.9.9.9"},
		{"no address", "10.1.1.1:7", []string{"203.0.113.9, unknown"}, nil, "10.1.1.1"},
		{"no address before an edge", "10.1.1.1:7", []string{"hunter, 10.2.2.2"}, nil, "10.2.2.2"},
		{"empty", "10.1.1.1:7", []string{""}, nil, "10.1.1.1"},
		{"standard", "10.1.1.1:7", nil, []string{`for=192.0.2.1, For="203.0.113.9:80";proto=https;by=10.1.1.1`}, "203.0.113.9"},
		{"standard, IPv6", "10.1.1.1:7", nil, []string{`for="[2001:db8:1::2]"`}, "2001:db8:1::2"},
		{"standard, several edges", "10.1.1.1:7", nil, []string{`for=203.0.113.9;a="b, c;d"`, "for=10.2.2.2"}, "203.0.113.9"},
		{"standard, hidden", "10.1.1.1:7", nil, []string{"for=203.0.113.9, for=_hidden"}, "10.1.1.1"},
		{"standard, without for", "10.1.1.1:7", nil, []string{"for=203.0.113.9, proto=https"}, "10.1.1.1"},
		{"standard, the edge's in the client's quotes", "10.1.1.1:7", nil, []string{`for=192.0.2.1;a=", for=203.0.113.9`}, "10.1.1.1"},
		{"standard, quotes within quotes", "10.1.1.1:7", nil, []string{`for=192.0.2.1;a=", for="[2001:db8:1::2]"`}, "10.1.1.1"},
		{"standard, escaped", "10.1.1.1:7", nil, []string{`for="203.0.113.9\"`, `for=203.0.113.9`}, "10.1.1.1"},
		{"standard, garbage", "10.1.1.1:7", nil, []string{"hunter"}, "10.1.1.1"},
		{"both agree", "10.1.1.1:7", []string{"203.0.113.9"}, []string{"for=203.0.113.9"}, "203.0.113.9"},
		{"one is the client's own", "10.1.1.1:7", []string{"203.0.113.9"}, []string{"for=192.0.2.1"}, "10.1.1.1"},
		{"one is garbage", "10.1.1.1:7", []string{"203.0.113.9"}, []string{"hunter"}, "10.1.1.1"},
		{"no peer", "@", []string{"203.0.113.9"}, nil, "invalid IP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = tc.peer
			r.Header["X-Forwarded-For"], r.Header["Forwarded"] = tc.listed, tc.standard
			if got := e.clientAddress(r).String(); got != tc.want {
				t.Errorf("address %s, want %s", got, tc.want)
			}
		})
	}
}
