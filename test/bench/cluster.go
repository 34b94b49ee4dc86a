package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// measureCluster measures the time until a Function is ready, compared with a plain Deployment
// of the same program in its own image.
func measureCluster(ctx context.Context, s *session) error {
	b, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	b.measure(ctx, s.n)
	b.compare()
	s.step(ctx, "the size of images", []string{"image"}, b.images)
	return nil
}

// bench takes samples in its own namespace.
type bench struct {
	session    *session
	client     client.WithWatch
	clientset  *kubernetes.Clientset
	namespace  string
	plainImage string
	round      int // number of rounds so far
	samples    map[string][]float64
	failed     map[string]error // errors by kind; a kind with an error has no samples
	results    *results
}

// connect connects to the cluster and creates the namespace, which cleanUp removes.
func connect(ctx context.Context, s *session) (*bench, error) {
	plainImage := os.Getenv("PLAIN_IMAGE")
	if plainImage == "" {
		return nil, errors.New("PLAIN_IMAGE is not set: make bench builds the image and sets it")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a cluster, set KUBECONFIG: %w", err)
	}
	config.QPS = -1 // the API server limits requests itself
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	b := &bench{session: s, plainImage: plainImage, samples: map[string][]float64{}, failed: map[string]error{}, results: &s.results}
	if b.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if b.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{}
	namespace.GenerateName = "goless-bench-"
	if err := b.client.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("creating a namespace: %w", err)
	}
	b.namespace = namespace.Name
	return b, nil
}

func (b *bench) cleanUp() {
	namespace := &corev1.Namespace{}
	namespace.Name = b.namespace
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.client.Delete(ctx, namespace); err != nil {
		fmt.Fprintln(os.Stderr, "bench: removing the namespace:", err)
	}
}

// measure alternates between its subjects, after one sample of each kind that does not count
// because it pulls images. What needs many pods is measured less often.
func (b *bench) measure(ctx context.Context, n int) {
	plain := b.plain("plain", nil)
	novolume := b.plain("plain_novolume", new(false))
	inpod := b.function("inpod", v1beta1.BuildInPod, unique)
	miss := b.function("shared_miss", v1beta1.BuildShared, unique)
	hit := b.function("shared_hit", v1beta1.BuildShared,
		func(_ int, answer string) string { return constant(answer) })
	inpod.inspect = b.compile
	novolume.second, hit.second = nil, nil

	b.turns(ctx, "warming up", 1, b.sample, plain, novolume, inpod, miss, hit)
	clear(b.samples)
	clear(b.failed) // the first sample of a kind may fail because it starts too early
	b.turns(ctx, "deploying", n, b.sample, plain, novolume, inpod, miss, hit)
	b.turns(ctx, "scaling", max(1, n/10), b.scale, plain, miss)
	b.turns(ctx, "deploying many", max(1, n/10), b.crowd, plain, miss)
}

// turns takes n samples of each subject. The order and the pauses are random, because the
// kubelet checks containers once per second, and a fixed interval would always meet it at the
// same phase.
func (b *bench) turns(ctx context.Context, what string, n int, sample func(context.Context, subject, int), subjects ...subject) {
	b.session.progress.begin("cluster: " + what)
	for i := range n {
		b.round++
		rand.Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
		for _, s := range subjects {
			b.session.progress.say("round %d of %d, %s", i+1, n, s.name)
			time.Sleep(rand.N(time.Second))
			sample(ctx, s, b.round)
		}
	}
}

// attempt takes samples of a kind, or of several whose names begin with kind and a dot, and
// reports whether it succeeded. It does not retry failed ones, because they may have timed out.
func (b *bench) attempt(kind string, do func() error) bool {
	if b.failed[kind] != nil {
		return false
	}
	b.failed[kind] = do()
	return b.failed[kind] == nil
}

// record adds a value to the samples of a kind.
func (b *bench) record(kind string, value float64) {
	b.samples[kind] = append(b.samples[kind], value)
}

// compare computes the figures from the samples. The baseline is the plain Deployment, and for
// the first start also the one without a volume.
func (b *bench) compare() {
	for kind, err := range b.failed {
		if err != nil {
			maps.DeleteFunc(b.samples, func(other string, _ []float64) bool { return covers(kind, other) })
			b.results.fail(kind, err)
			b.session.failures = append(b.session.failures, fmt.Errorf("%s: %w", kind, err))
		}
	}
	for kind, samples := range b.samples {
		what, name, _ := strings.Cut(kind, ".")
		switch {
		case what == "phase":
			b.comparePhase(kind)
		case what == "compile" || what == "compiles" || name == "plain":
			b.results.compare(kind, samples, nil, unitOf(kind))
		default:
			b.results.compare(kind, samples, b.samples[what+".plain"], "s")
		}
		if what == "deploy" && strings.HasPrefix(name, "shared") {
			b.results.compare(kind+"_to_novolume", samples, b.samples["deploy.plain_novolume"], "s")
		}
	}
}

func unitOf(kind string) string {
	switch {
	case kind == "compile.memory":
		return "MiB"
	case strings.HasPrefix(kind, "compiles."):
		return "builds"
	default:
		return "s"
	}
}
