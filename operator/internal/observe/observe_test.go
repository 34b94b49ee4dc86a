package observe

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// of returns the metadata of an object that runs a revision.
func of(revision string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{desired.RevisionLabel: revision}}
}

// A revision is in use while a ReplicaSet has or wants pods of it, or a pod of it exists, whoever
// owns that pod.
func TestRunning(t *testing.T) {
	s := &Snapshot{RevisionsInUse: map[string]bool{}}
	s.running([]appsv1.ReplicaSet{
		{ObjectMeta: of("has"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}, Status: appsv1.ReplicaSetStatus{Replicas: 1}},
		{ObjectMeta: of("wants"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1))}},
		{ObjectMeta: of("empty"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0))}},
	}, []corev1.Pod{{ObjectMeta: of("orphan")}})
	if want := map[string]bool{"has": true, "wants": true, "orphan": true}; !maps.Equal(s.RevisionsInUse, want) {
		t.Errorf("revisions in use: %v, want %v", s.RevisionsInUse, want)
	}
}

// The source of a previous revision is used only if its content has that revision: any user with
// access to ConfigMaps can store another source under its name.
func TestRevision(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
	fn.Spec.Function = "latest"
	former := desired.Revision("former")
	for content, found := range map[string]bool{"former": true, "forged": false} {
		source := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: desired.ConfigMapName(fn, former)}}
		source.Data = map[string]string{"handler.go": CachedSource(desired.SummaryOf(content))}
		s := &Snapshot{Sources: []corev1.ConfigMap{source}}
		if got := s.Revision(fn, former); (got != nil) != found || found && desired.LatestRevision(got) != former {
			t.Errorf("content %s: %+v", content, got)
		}
	}
	if got := (&Snapshot{}).Revision(fn, desired.LatestRevision(fn)); got != fn {
		t.Errorf("the latest revision is %+v", got)
	}
}

// While sources cannot be read, a source is valid if the status lists it as the latest valid one.
// For any other source, the check returns an error.
func TestUnreadSource(t *testing.T) {
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer busy.Close()
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper.Add(v1beta1.GroupVersion.WithKind("Function"), meta.RESTScopeNamespace)
	live, err := client.New(&rest.Config{Host: busy.URL}, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "f"}}
	fn.Spec.Summary = new(desired.SummaryOf("latest"))
	sources := Sources{Live: live}
	for revision, valid := range map[string]bool{"": false, desired.Revision("former"): false, desired.Revision("latest"): true} {
		fn.Status.LatestRevision = revision
		if found, err := sources.check(t.Context(), fn, settings.Settings{}); (err == nil) != valid || found.Source != nil {
			t.Errorf("latest revision %q in the status: %+v, %v", revision, found, err)
		}
	}
}

// TestLoader loads a source twice. Each call reads it from the API server: sources are not cached.
func TestLoader(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "f", UID: "uid"}}
	fn.Spec.Function = "latest"
	live := &oneFunction{latest: fn.DeepCopy()}
	fn.Spec.Summary = new(desired.SummaryOf("latest"))
	load := (&Sources{Live: live}).Loader(fn)
	for reads := 1; reads < 3; reads++ { // each from the watch cache
		if source, err := load(t.Context()); err != nil || source != "latest" || live.reads != reads {
			t.Errorf("read %d: %q, %v, after %d reads of the API server", reads, source, err, live.reads)
		}
	}
	live.latest.Spec.Function = "other"
	if _, err := load(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("changed source: %v, want a conflict", err)
	}
}

// An API server whose watch cache is behind is asked for the source in etcd.
func TestLoaderWithStaleCache(t *testing.T) {
	for name, cached := range map[string]*v1beta1.Function{"Older": {}, "Fails": nil} {
		fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "f", UID: "uid"}}
		fn.Spec.Function = "latest"
		live := &oneFunction{latest: fn.DeepCopy(), cached: cached, stale: true}
		if cached != nil {
			fn.DeepCopyInto(cached)
			cached.Spec.Function = "older"
		}
		fn.Spec.Summary = new(desired.SummaryOf("latest"))
		if source, err := (&Sources{Live: live}).Loader(fn)(t.Context()); err != nil || source != "latest" || live.reads != 2 {
			t.Errorf("%s: %q, %v, after %d reads of the API server", name, source, err, live.reads)
		}
	}
}

// oneFunction is an API server with one Function.
type oneFunction struct {
	client.Reader
	latest *v1beta1.Function
	reads  int

	stale  bool // the watch cache contains cached, or fails if that is nil
	cached *v1beta1.Function
}

func (o *oneFunction) Get(_ context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if fn, ok := into.(*v1beta1.Function); ok {
		o.reads++
		raw := (&client.GetOptions{}).ApplyOptions(options).Raw
		switch fromCache := raw != nil && raw.ResourceVersion == "0"; {
		case fromCache && o.stale && o.cached == nil:
			return apierrors.NewInternalError(errors.New("the watch cache is not initialized"))
		case fromCache && o.stale:
			o.cached.DeepCopyInto(fn)
		default:
			o.latest.DeepCopyInto(fn)
		}
		return nil
	}
	return apierrors.NewNotFound(v1beta1.GroupVersion.WithResource("configmaps").GroupResource(), key.Name)
}

// The state of the activator is read only from EndpointSlices of the Function's own Services.
func TestActivatorOf(t *testing.T) {
	slice := func(owner types.UID, endpoints int, annotations map[string]string) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner}}, Annotations: annotations},
			Endpoints:  make([]discoveryv1.Endpoint, endpoints),
		}
	}
	failed := map[string]string{v1beta1.WakeFailedAnnotation: "quota"}
	for name, test := range map[string]struct {
		slices []discoveryv1.EndpointSlice
		want   Activator
	}{
		"None":      {nil, Activator{}},
		"Empty":     {[]discoveryv1.EndpointSlice{slice("own", 0, nil)}, Activator{}},
		"OneFamily": {[]discoveryv1.EndpointSlice{slice("own", 0, nil), slice("own", 1, nil)}, Activator{Routed: true}},
		"Failed":    {[]discoveryv1.EndpointSlice{slice("own", 2, failed), slice("own", 2, nil)}, Activator{Routed: true, WakeFailed: "quota"}},
		"Awake":     {[]discoveryv1.EndpointSlice{slice("own", 0, map[string]string{v1beta1.StaysAwakeAnnotation: "mesh"})}, Activator{StaysAwake: "mesh"}},
		"Stuck":     {[]discoveryv1.EndpointSlice{slice("own", 0, map[string]string{v1beta1.CannotScaleAnnotation: "mesh"})}, Activator{CannotScale: "mesh"}},
		"Another's": {[]discoveryv1.EndpointSlice{slice("another", 1, failed)}, Activator{}},
		"Nobody's":  {[]discoveryv1.EndpointSlice{{Endpoints: make([]discoveryv1.Endpoint, 1)}}, Activator{}},
	} {
		var got Activator
		got.read(test.slices, []corev1.Service{{ObjectMeta: metav1.ObjectMeta{UID: "former"}}, {ObjectMeta: metav1.ObjectMeta{UID: "own"}}})
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// An orphan has the labels of the Function, no owner, and fields applied by the operator.
func TestOrphans(t *testing.T) {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: "f", UID: "1"}}
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource string) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: metav1.ManagedFieldsOperationApply}, {Manager: manager, Operation: operation, Subresource: subresource}}
	}
	for name, change := range map[string]func(*corev1.Service){
		"":          func(*corev1.Service) {},
		"not there": func(s *corev1.Service) { s.UID = "" },
		"ending":    func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) },
		"owned": func(s *corev1.Service) {
			s.OwnerReferences = []metav1.OwnerReference{{Kind: "ConfigMap", Name: "c", UID: "2"}}
		},
		"another function": func(s *corev1.Service) { s.Labels["goless.io/function"] = "g" },
		"another tool":     func(s *corev1.Service) { s.Labels["app.kubernetes.io/managed-by"] = "helm" },
		"another manager":  func(s *corev1.Service) { s.ManagedFields = entry("kubectl", metav1.ManagedFieldsOperationApply, "") },
		"updated": func(s *corev1.Service) {
			s.ManagedFields = entry("goless-operator", metav1.ManagedFieldsOperationUpdate, "")
		},
		"status": func(s *corev1.Service) {
			s.ManagedFields = entry("goless-operator", metav1.ManagedFieldsOperationApply, "status")
		},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "3", Labels: map[string]string{"goless.io/function": "f", "app.kubernetes.io/managed-by": "goless"}}}
		service.ManagedFields = entry("goless-operator", metav1.ManagedFieldsOperationApply, "")
		change(service)
		if got := len(orphans(fn, service)) == 1; got != (name == "") {
			t.Errorf("%q: orphan %t", name, got)
		}
	}
}
