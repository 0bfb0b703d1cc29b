package compile

import (
	"reflect"
	"testing"

	"github.com/ghostline-dev/ghostline/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// routeOf is a route with what it says about proxies, and what its one region says.
func routeOf(all, west *v1alpha1.Proxy) *v1alpha1.CompletionRoute {
	return &v1alpha1.CompletionRoute{Spec: v1alpha1.CompletionRouteSpec{
		Proxy: all, Regions: []v1alpha1.Region{{Name: "west", Proxy: west}},
	}}
}

func TestProxyOf(t *testing.T) {
	two, five := int32(2), int32(5)
	scaling := &v1alpha1.Autoscaling{Min: 3, Max: 9, TargetCPU: 70}
	service := &v1alpha1.Service{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"a": "b"}}
	tls := &v1alpha1.ServerTLS{SecretRef: v1alpha1.SecretRef{Name: "tls"}}
	resources := &corev1.ResourceRequirements{}
	full := v1alpha1.Proxy{
		Replicas: &five, Image: "image", Service: service, TLS: tls,
		TrustedEdges: []string{"10.0.0.0/8"}, Resources: resources,
	}
	for _, tc := range []struct {
		name          string
		route, region *v1alpha1.Proxy
		want          v1alpha1.Proxy
	}{
		{"nothing said", nil, nil, v1alpha1.Proxy{}},
		{"only by the route", &full, nil, full},
		{"only by the region", nil, &full, full},
		{"nothing overridden", &full, &v1alpha1.Proxy{}, full},
		{"everything overridden", &v1alpha1.Proxy{
			Replicas: &two, Image: "other", Service: &v1alpha1.Service{Type: corev1.ServiceTypeNodePort},
			TLS: &v1alpha1.ServerTLS{SecretRef: v1alpha1.SecretRef{Name: "other"}}, TrustedEdges: []string{"::/0"},
			Resources: &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "other"}}},
		}, &full, full},
		{"replicas in place of autoscaling", &v1alpha1.Proxy{Autoscaling: scaling}, &v1alpha1.Proxy{Replicas: &two}, v1alpha1.Proxy{Replicas: &two}},
		{"autoscaling in place of replicas", &v1alpha1.Proxy{Replicas: &two}, &v1alpha1.Proxy{Autoscaling: scaling}, v1alpha1.Proxy{Autoscaling: scaling}},
		{"no trusted edges here", &full, &v1alpha1.Proxy{TrustedEdges: []string{}}, func() v1alpha1.Proxy {
			none := full
			none.TrustedEdges = []string{}
			return none
		}()},
	} {
		route := routeOf(tc.route, tc.region)
		before := route.DeepCopy()
		got := ProxyOf(route, "west")
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: - is wanted:\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(before, route); diff != "" {
			t.Errorf("%s: the route was changed:\n%s", tc.name, diff)
		}
	}
}

// TestProxyOfHasEveryField: one that is added to the API is not forgotten here.
func TestProxyOfHasEveryField(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.Proxy]()) {
		over := &v1alpha1.Proxy{}
		value := reflect.ValueOf(over).Elem().FieldByIndex(field.Index)
		switch value.Kind() {
		case reflect.Pointer:
			value.Set(reflect.New(value.Type().Elem()))
		case reflect.Slice:
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		case reflect.Map:
			value.Set(reflect.MakeMap(value.Type()))
		case reflect.String:
			value.SetString("set")
		default:
			t.Fatalf("%s is a %s, which this test cannot set", field.Name, value.Kind())
		}
		if diff := cmp.Diff(*over, ProxyOf(routeOf(nil, over), "west")); diff != "" {
			t.Errorf("%s is not taken over:\n%s", field.Name, diff)
		}
	}
}
