package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// measureCluster measures how long it takes until a Function is ready, against a
// plain Deployment of the same program in an image of its own.
func measureCluster(ctx context.Context, s *session) error {
	plainImage := os.Getenv("PLAIN_IMAGE")
	if plainImage == "" {
		return errors.New("PLAIN_IMAGE is not set: make bench builds the image and sets it")
	}
	b, err := connect(ctx, plainImage, &s.results)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	if err := b.measure(ctx, s.n); err != nil {
		return err
	}
	return b.images(ctx)
}

// bench takes samples in a namespace of its own.
type bench struct {
	client     client.WithWatch
	clientset  *kubernetes.Clientset
	namespace  string
	plainImage string
	samples    map[string][]float64
	results    *results
}

func connect(ctx context.Context, plainImage string, r *results) (*bench, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding a cluster, set KUBECONFIG: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	b := &bench{plainImage: plainImage, samples: map[string][]float64{}, results: r}
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

// measure takes n samples of each kind by turns, after one of each that does not
// count because images are pulled in it. The pauses are random, because the
// kubelet looks at containers once a second and a fixed rhythm would always meet
// it at the same point.
func (b *bench) measure(ctx context.Context, n int) error {
	subjects := []subject{b.function, b.plain}
	for i := range n + 1 {
		fmt.Fprintf(os.Stderr, "\rround %d of %d ", i, n)
		rand.Shuffle(len(subjects), func(i, j int) { subjects[i], subjects[j] = subjects[j], subjects[i] })
		for _, sample := range subjects {
			time.Sleep(rand.N(time.Second))
			if err := sample(ctx, i); err != nil {
				return err
			}
		}
		if i == 0 {
			clear(b.samples)
		}
	}
	fmt.Fprintln(os.Stderr)
	b.results.compare("deploy.function", b.samples["deploy.function"], b.samples["deploy.plain"], "s")
	b.results.compare("update.function", b.samples["update.function"], b.samples["update.plain"], "s")
	for _, phase := range phases {
		b.results.compare("phase."+phase.name, b.samples["phase."+phase.name], nil, "s")
	}
	b.results.compare("compile.wall", b.samples["compile.wall"], nil, "s")
	b.results.compare("compile.memory", b.samples["compile.memory"], nil, "MiB")
	return nil
}

// subject takes the i-th sample of one kind.
type subject func(ctx context.Context, i int) error

// record adds a figure to the samples of a kind.
func (b *bench) record(kind string, value float64) {
	b.samples[kind] = append(b.samples[kind], value)
}
