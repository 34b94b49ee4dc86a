package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// measureWake measures sleeping functions: the duration of their first request, and the number
// of lost requests. The baseline are plain Deployments that are scaled from 0 to 1 and called
// at the addresses of their pods. Another baseline are Deployments with the security context and
// the resources of the pods of functions: a pod with a seccomp profile takes longer to start.
// Timed requests go through the API server, which reaches pods wherever the benchmark runs.
// Requests that may be lost are sent from inside the cluster.
func measureWake(ctx context.Context, s *session) error {
	b, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	z := &sleepers{bench: b}
	z.noCaller = z.deployCaller(ctx)
	if err := z.grow(ctx, fewSleepers); err != nil {
		return err
	}
	s.step(ctx, "wake: one by one", []string{"wake.zero_p50", "wake.zero_p99"}, z.oneByOne)
	s.step(ctx, "wake: a burst of requests", []string{"wake.burst500_lost", "wake.alone"}, z.burst)
	s.step(ctx, "wake: requests while functions fall asleep", []string{"wake.race_lost"}, z.race)
	storms := []int{fewSleepers}
	if s.full {
		storms = append(storms, manySleepers)
	}
	for _, n := range storms {
		row := fmt.Sprintf("wake.storm%d_p99", n)
		s.step(ctx, fmt.Sprintf("wake: %d at once", n), []string{row}, func(ctx context.Context) error { return z.storm(ctx, n, row) })
	}
	if s.full {
		s.step(ctx, "wake: a web shop", []string{"wake.shop_lost", "wake.shop_night_pods"}, z.shop)
	}
	return nil
}

// The numbers of sleeping functions. A node has room for 110 pods.
const (
	fewSleepers  = 25
	manySleepers = 100
)

// sleepers are functions that sleep when the benchmark makes them, and an equal number of
// Deployments as the baseline.
type sleepers struct {
	*bench

	n         int   // how many of each there are
	noCaller  error // why no requests can be sent from inside the cluster
	activator corev1.Pod
	ports     map[string]int32 // of the activator, by function
}

func sleeper(i int) string { return fmt.Sprintf("sleeper-%d", i) }
func bare(i int) string    { return fmt.Sprintf("bare-%d", i) }

// restricted is the name of a Deployment with the security context and the resources of functions.
func restricted(i int) string { return fmt.Sprintf("restricted-%d", i) }

// grow creates more of both, up to n. By default the functions do not sleep for a day, so that
// the benchmark determines when they do.
func (z *sleepers) grow(ctx context.Context, n int) error {
	first, missing := z.n, map[string]bool{}
	for z.n = max(z.n, n); first+len(missing) < z.n; {
		missing[sleeper(first+len(missing))] = true
	}
	if len(missing) == 0 {
		return nil
	}
	err := each(first, z.n, func(i int) error {
		fn := z.newFunction(sleeper(i), constant("first"))
		fn.Spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), SleepAfter: &metav1.Duration{Duration: v1beta1.MaxSleepAfter}}
		plain, _ := z.plainObjects(bare(i))
		limited, _ := z.plainObjects(restricted(i))
		restrict(&limited.Spec.Template.Spec)
		err := z.client.Create(ctx, fn)
		for _, deployment := range []*appsv1.Deployment{plain, limited} {
			deployment.Spec.Replicas = new(int32(0))
			deployment.Spec.Template.Spec.AutomountServiceAccountToken = new(false)
			err = errors.Join(err, z.client.Create(ctx, deployment))
		}
		return err
	})
	if err != nil {
		return err
	}
	return awaitAll(ctx, z.client, z.newFunction("", ""), &v1beta1.FunctionList{}, isReady, missing)
}

// restrict sets the security context and the resources of functions.
func restrict(pod *corev1.PodSpec) {
	pod.EnableServiceLinks = new(false)
	pod.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	amounts := func(memory, disk string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceEphemeralStorage: resource.MustParse(disk)}
	}
	pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts("32Mi", "16Mi"), Limits: amounts("256Mi", "1Gi")}
	pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("50m")
}

// oneByOne wakes functions one after the other: 50 with the default of -n, 100 in a full run.
func (z *sleepers) oneByOne(ctx context.Context) error {
	rounds := (z.session.n + 4) / 5
	if z.session.full {
		rounds *= 2
	}
	if err := z.sleep(ctx); err != nil {
		return err
	}
	for _, i := range []int{0, fewSleepers, 2 * fewSleepers} { // all have the same images, which one of each pulls
		if _, err := z.one(ctx, i); err != nil {
			return err
		}
	}
	var took [3][]float64 // of functions, and of both baselines
	for round := range rounds {
		if err := z.sleep(ctx); err != nil {
			return err
		}
		for n, i := range rand.Perm(len(took) * fewSleepers) {
			z.session.progress.say("round %d of %d, %d of %d", round+1, rounds, n, len(took)*fewSleepers)
			time.Sleep(rand.N(200 * time.Millisecond)) // as in turns
			one, err := z.one(ctx, i)
			if err != nil {
				return err
			}
			took[i/fewSleepers] = append(took[i/fewSleepers], one.Seconds())
		}
	}
	woken := took[0]
	for i, suffix := range []string{"", "_to_restricted"} {
		z.results.addRatio("wake.zero"+suffix+"_p50", median(woken), median(took[i+1]), "s", len(woken))
		z.results.addRatio("wake.zero"+suffix+"_p99", percentile(woken, 0.99), percentile(took[i+1], 0.99), "s", len(woken))
	}
	return nil
}

// one wakes a function, or scales a Deployment of one of the baselines if the number is larger.
func (z *sleepers) one(ctx context.Context, i int) (took time.Duration, err error) {
	began, n := time.Now(), i%fewSleepers
	switch i / fewSleepers {
	case 0:
		err = z.wake(ctx, n)
	case 1:
		err = z.scaleUp(ctx, []string{bare(n)}, func() {})
	default:
		err = z.scaleUp(ctx, []string{restricted(n)}, func() {})
	}
	return time.Since(began), err
}

// storm wakes n functions at once, and scales as many Deployments at once.
// kube-controller-manager sends at most 20 requests per second by default, so many of both wait
// for it.
func (z *sleepers) storm(ctx context.Context, n int, row string) error {
	if err := errors.Join(z.grow(ctx, n), z.sleep(ctx)); err != nil {
		return err
	}
	var mu sync.Mutex
	var woken, scaled []float64
	answered := func(samples *[]float64, since time.Time) {
		mu.Lock()
		defer mu.Unlock()
		*samples = append(*samples, time.Since(since).Seconds())
	}
	began := time.Now()
	err := atOnce(0, n, func(i int) error {
		defer answered(&woken, began)
		return z.wake(ctx, i)
	})
	if err == nil {
		err = z.sleep(ctx)
	}
	if err != nil {
		return err
	}
	var names []string
	for i := range n {
		names = append(names, bare(i))
	}
	began = time.Now()
	if err := z.scaleUp(ctx, names, func() { answered(&scaled, began) }); err != nil {
		return err
	}
	z.results.addRatio(row, percentile(woken, 0.99), percentile(scaled, 0.99), "s", n)
	return nil
}

// wake sends a request to a function through an activator. Any replica may receive it.
func (z *sleepers) wake(ctx context.Context, i int) error {
	return z.askPod(ctx, z.activator.Namespace, z.activator.Name, z.ports[sleeper(i)])
}

// scaleUp scales Deployments to one pod each, and calls answered when one has responded to a
// request.
func (z *sleepers) scaleUp(ctx context.Context, names []string, answered func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not all of %d pods answered within %s", len(names), patience))
	defer cancel()
	only, err := labels.NewRequirement("app", selection.In, names)
	if err == nil {
		err = atOnce(0, len(names), func(i int) error { return z.scaleTo(ctx, names[i], 1) })
	}
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	errs := make(chan error, len(names))
	err = watchUntil(ctx, z.client, &corev1.Pod{}, &corev1.PodList{}, func(object client.Object) bool {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.Status.PodIP == "" || asked[pod.Name] {
			return false
		}
		asked[pod.Name] = true
		go func() {
			err := z.askPod(ctx, pod.Namespace, pod.Name, v1beta1.DefaultServerPort)
			if err == nil {
				answered()
			}
			errs <- err
		}()
		return len(asked) == len(names)
	}, client.InNamespace(z.namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*only)})
	for range asked {
		err = errors.Join(err, <-errs)
	}
	return err
}

// atOnce calls do for each number, all concurrently.
func atOnce(from, to int, do func(i int) error) error {
	errs := make(chan error, to-from)
	for i := from; i < to; i++ {
		go func() { errs <- do(i) }()
	}
	var all error
	for range to - from {
		all = errors.Join(all, <-errs)
	}
	return all
}
