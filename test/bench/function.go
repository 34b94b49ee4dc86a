package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// unique returns a source that was never compiled before, so that no part of it is cached.
func unique(i int, answer string) string {
	return fmt.Sprintf("// Round %d, %s.\n%s", i, time.Now(), constant(answer))
}

// constant returns a source that is always the same.
func constant(answer string) string {
	return fmt.Sprintf(`package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(%q)) }
`, answer)
}

// function deploys a Function that is compiled with a strategy.
func (b *bench) function(name string, strategy v1beta1.BuildStrategy, source func(i int, answer string) string) subject {
	return subject{
		name:  name,
		built: strategy == v1beta1.BuildShared,
		objects: func(name string, i int) []client.Object {
			fn := &v1beta1.Function{}
			fn.Name, fn.Namespace = name, b.namespace
			fn.Spec.Function = source(i, "first")
			fn.Spec.Build = &v1beta1.BuildSpec{Strategy: strategy}
			return []client.Object{fn}
		},
		list:  &v1beta1.FunctionList{},
		ready: hasAllReplicas,
		small: func(object client.Object) {
			little := v1beta1.Amounts{CPU: new(resource.MustParse("20m"))}
			object.(*v1beta1.Function).Spec.Resources = &v1beta1.Resources{Requests: little} //nolint:forcetypeassert // as objects makes them
		},
		replicas: func(object client.Object, n int32) { object.(*v1beta1.Function).Spec.Replicas = &n }, //nolint:forcetypeassert // as objects makes them
		second: func(object client.Object, i int) {
			object.(*v1beta1.Function).Spec.Function = source(i, secondAnswer) //nolint:forcetypeassert // as objects makes them
		},
	}
}

// newFunction returns a Function with requests so small that very many fit on a small node.
func (b *bench) newFunction(name, source string) *v1beta1.Function {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace}}
	fn.Spec.Function = source
	fn.Spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("5m"))}}
	return fn
}

// isReady evaluates the status like kubectl wait.
func isReady(object client.Object) bool {
	fn, ok := object.(*v1beta1.Function)
	if !ok {
		return false
	}
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == fn.Generation
}

// hasAllReplicas reports whether a Function is ready with all wanted replicas. The condition
// Ready alone stays True while a function is scaled up.
func hasAllReplicas(object client.Object) bool {
	fn, ok := object.(*v1beta1.Function)
	if !ok {
		return false
	}
	wanted, fixed := fn.FixedReplicas()
	return isReady(fn) && fixed && fn.Status.ReadyReplicas == wanted
}

var peak = regexp.MustCompile(`the compiler used (\d+) MiB`)

// compile records the report of the builder in a pod: its duration from the status, and the
// memory of its largest process from the log.
func (b *bench) compile(ctx context.Context, ready client.Object) error {
	// A Function may be ready before the kubelet has reported the result of its build.
	fn, err := await(ctx, b.client, ready.(*v1beta1.Function), &v1beta1.FunctionList{}, //nolint:forcetypeassert // as function makes it
		func(fn *v1beta1.Function) bool { return isReady(fn) && fn.Status.Build != nil })
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(fn.Status.Build.Duration)
	if err != nil {
		return fmt.Errorf("reading the duration of the build: %w", err)
	}
	b.record("compile.wall", duration.Seconds())

	var pods corev1.PodList
	if err := b.client.List(ctx, &pods, client.InNamespace(b.namespace), client.MatchingLabels{"goless.io/revision": fn.Status.LatestRevision}); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("no pod of %s is left to ask for the memory of its build", fn.Name)
	}
	log, err := b.clientset.CoreV1().Pods(b.namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "build"}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of the build: %w", err)
	}
	defer log.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(log)
	if err != nil {
		return fmt.Errorf("reading the log of the build: %w", err)
	}
	match := peak.FindSubmatch(text)
	if match == nil {
		return fmt.Errorf("the log of the build does not tell its memory: %q", text)
	}
	mebibytes, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		return err
	}
	b.record("compile.memory", mebibytes)
	return nil
}
