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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// source is never the same twice, so that nothing can be reused.
func source(i int, version string) string {
	return fmt.Sprintf(`package handlers

import "net/http"

// Round %d, %s, %s.
func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }
`, i, version, time.Now())
}

// function applies a Function, waits until it is ready, changes it, and waits
// again.
func (b *bench) function(ctx context.Context, i int) error {
	fn := &v1beta1.Function{}
	fn.Name, fn.Namespace = fmt.Sprintf("function-%d", i), b.namespace
	fn.Spec.Function = source(i, "first")

	started := time.Now()
	over, err := b.watchPhases(ctx, fn.Name, started)
	if err != nil {
		return err
	}
	if err := b.client.Create(ctx, fn); err != nil {
		return err
	}
	ready, err := await(ctx, b.client, fn, &v1beta1.FunctionList{}, isReady)
	if err != nil {
		return err
	}
	took := time.Since(started)
	<-over
	b.record("deploy.function", took.Seconds())
	if err := b.compile(ctx, ready); err != nil {
		return err
	}

	changed := ready.DeepCopy()
	changed.Spec.Function = source(i, "second")
	started = time.Now()
	if err := b.client.Patch(ctx, changed, client.MergeFrom(ready)); err != nil {
		return err
	}
	if _, err := await(ctx, b.client, changed, &v1beta1.FunctionList{}, isReady); err != nil {
		return err
	}
	b.record("update.function", time.Since(started).Seconds())
	return b.client.Delete(ctx, changed)
}

// isReady reads the status as kubectl wait does.
func isReady(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == fn.Generation
}

var peak = regexp.MustCompile(`the compiler took (\d+) MiB`)

// compile records what the builder says of itself: its duration in the status,
// the memory of its largest process in the log.
func (b *bench) compile(ctx context.Context, fn *v1beta1.Function) error {
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
