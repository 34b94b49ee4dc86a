package function_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/function"
)

// A source is read twice, to validate it and to record it, and again when its ConfigMap is lost, and
// not for other events of the Function.
func TestSourceIsReadOnce(t *testing.T) {
	fn := create(t, "once", func(*v1beta1.Function) {})
	serve(t, fn)
	reads := func() (n int) {
		for _, read := range writes.reads() {
			if strings.HasSuffix(read, "/namespaces/"+fn.Namespace+"/functions/once") {
				n++
			}
		}
		return n
	}
	source := await(t, fn, sourceOf(fn, hello), &corev1.ConfigMap{}, nil)
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(2)) })
	serve(t, fn)
	if got := reads(); got != 2 {
		t.Errorf("the source was read %d times", got)
	}

	remove(t, source)
	again := await(t, fn, source.Name, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) bool { return c.UID != source.UID })
	if again.Data["handler.go"] != hello {
		t.Errorf("the new ConfigMap contains %q", again.Data)
	}
	if got := reads(); got != 3 {
		t.Errorf("the source was read %d times for its ConfigMap", got-2)
	}

	next := hello + "// next\n"
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = next })
	await(t, fn, sourceOf(fn, next), &corev1.ConfigMap{}, func(c *corev1.ConfigMap) bool { return c.Data["handler.go"] == next })
	serve(t, fn)
	if got := reads(); got > 6 { // one more if the cache was stale
		t.Errorf("the source was read %d times after its change", got-3)
	}
}

// The cache of an operator, whether it is the leader or not, does not contain sources.
func TestSourcesAreNotCached(t *testing.T) {
	fn := create(t, "large", func(fn *v1beta1.Function) {
		fn.Spec.Function = hello + "// " + strings.Repeat("x", 200<<10)
		fn.Annotations = map[string]string{"kapp.k14s.io/original": fn.Spec.Function, "goless.io/upgrade": "now", "pod.goless.io/note": "read"}
	})
	options, err := function.ManagerOptions(configured)
	if err != nil {
		t.Fatal(err)
	}
	options.Cache.Scheme = options.Scheme
	options.Cache.DefaultNamespaces = map[string]cache.Config{fn.Namespace: {}}
	c, err := cache.New(server, options.Cache)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetInformer(t.Context(), fn, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	go c.Start(t.Context()) //nolint:errcheck // what does not start does not sync
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not sync")
	}
	var cached v1beta1.Function
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(fn), &cached); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(cached)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 4<<10 || desired.Summary(&cached) != desired.Summary(fn) || cached.Annotations["goless.io/upgrade"] != "now" || cached.Annotations["pod.goless.io/note"] != "read" {
		t.Errorf("the cached Function has %d bytes, summary %+v and annotations %v", len(text), cached.Spec.Summary, cached.Annotations)
	}
}
