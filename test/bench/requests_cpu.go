package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

const (
	// scaledFunctions is the number of functions that scale on requests. loadedFunctions of them
	// receive requests, and have loadedReplicas pods each.
	scaledFunctions, loadedFunctions, loadedReplicas = 1000, 50, 4

	// scaledPods is the number of all pods.
	scaledPods = scaledFunctions + loadedFunctions*(loadedReplicas-1)

	// scalingPeriod is the time in which processor time is measured.
	scalingPeriod = 20 * time.Second
)

// scalingCPU measures the processor time of an activator that scales 1000 functions on requests,
// with a real API server. There are no nodes: this process responds on the admin ports of the pods,
// which are addresses of the loopback interface, in place of the runtime.
func (s *session) scalingCPU(ctx context.Context) error {
	f, err := newFleet(ctx, s, "requests")
	if err != nil {
		return err
	}
	defer f.close()
	pods := &activePods{began: time.Now(), polled: map[int]bool{}}
	defer pods.stop()
	err = errors.Join(pods.listen(), f.namespace(ctx, "scaled"))
	if err == nil {
		err = each(0, scaledFunctions, func(n int) error { return f.createScaled(ctx, n) })
	}
	if err != nil {
		return err
	}
	limits, err := f.limits("55-activator.yaml")
	if err != nil {
		return err
	}
	activator, _, err := f.plane.StartActivator(ctx, limits...)
	if err != nil {
		return err
	}
	defer activator.Kill()
	if err := f.await(ctx, func() (bool, error) { return pods.count() == scaledPods, nil }); err != nil {
		return fmt.Errorf("%d of %d pods were polled: %w", pods.count(), scaledPods, err)
	}
	var used []float64
	for range s.n {
		before := processorTime(activator.PID())
		time.Sleep(scalingPeriod)
		used = append(used, 1000*(processorTime(activator.PID())-before).Seconds()/scalingPeriod.Seconds())
	}
	s.results.add("requests.cpu_1000", median(used), "m", s.n)
	return nil
}

// createScaled creates what the activator reads of a function: its Service, Deployment and pods.
func (f *fleet) createScaled(ctx context.Context, n int) error {
	name, first, replicas := fmt.Sprintf("function-%d", n), n, 1
	if n < loadedFunctions {
		first, replicas = n*loadedReplicas, loadedReplicas
	} else {
		first += loadedFunctions * (loadedReplicas - 1)
	}
	labels := map[string]string{v1beta1.FunctionLabel: name}
	object := metav1.ObjectMeta{
		Namespace: "scaled", Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: name, UID: types.UID(name), Controller: new(true),
		}},
	}
	template := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "example.com/c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: v1beta1.DefaultServerPort}},
	}}}
	err := f.client.Create(ctx, &appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
	}})
	for i := range replicas {
		pod := &corev1.Pod{ObjectMeta: *object.DeepCopy(), Spec: template}
		pod.Name = fmt.Sprintf("%s-%d", name, i)
		pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = "apps/v1", "ReplicaSet"
		err = errors.Join(err, f.client.Create(ctx, pod))
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: podIP(first + i), PodIPs: []corev1.PodIP{{IP: podIP(first + i)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		}
		err = errors.Join(err, f.client.Status().Update(ctx, pod))
	}
	service := &corev1.Service{ObjectMeta: object, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: v1beta1.DefaultServerPort}},
	}}
	service.Annotations = map[string]string{v1beta1.ScalingAnnotation: fmt.Sprintf(`{"min":1,"max":10,"requests":%d}`, target)}
	return errors.Join(err, f.client.Create(ctx, service))
}

// podIP returns the address of a pod. The first loadedFunctions*loadedReplicas pods are loaded.
func podIP(n int) string { return fmt.Sprintf("127.20.%d.%d", n/250, n%250+1) }

// activePods responds on the admin ports of all pods.
type activePods struct {
	began   time.Time
	servers []*http.Server

	mu     sync.Mutex
	polled map[int]bool // by number
}

func (p *activePods) listen() error {
	for n := range scaledPods {
		listener, err := net.Listen("tcp", net.JoinHostPort(podIP(n), strconv.Itoa(v1beta1.AdminPort)))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: p.activity(n), ReadHeaderTimeout: time.Minute}
		p.servers = append(p.servers, server)
		go server.Serve(listener) //nolint:errcheck // ends with stop
	}
	return nil
}

func (p *activePods) stop() {
	for _, server := range p.servers {
		server.Close() //nolint:errcheck // the measurement is over
	}
}

// count returns the number of pods that were polled.
func (p *activePods) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.polled)
}

// activity writes the activity of a pod. The requests in flight of a loaded one go from half of the
// target to one and a half times the target and back in a minute. So the activator soon sets as many
// replicas as the highest load requires, and keeps them.
func (p *activePods) activity(n int) http.HandlerFunc {
	const wave = 2 * math.Pi / 60 // per second
	return func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		p.polled[n] = true
		p.mu.Unlock()
		up, total := time.Since(p.began).Seconds()+60, 0.0
		if n < loadedFunctions*loadedReplicas {
			total = target * (up - math.Cos(wave*up)/wave/2)
		}
		const perSecond = 10 // requests that a pod with one in flight serves
		fmt.Fprintf(w, `{"uptimeSeconds":%f,"inFlightSeconds":%f,"served":%d}`, up, total, int(perSecond*total))
	}
}
