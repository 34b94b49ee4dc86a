package keda_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/internal/keda"
)

// The state contains the message of the condition that prevents scaling.
func TestStateOf(t *testing.T) {
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "message": kind + " is " + status}
	}
	now := metav1.Now()
	for name, test := range map[string]struct {
		conditions []any
		deleted    *metav1.Time
		want       keda.State // Problem is a part of it
	}{
		"New":         {nil, nil, keda.State{Problem: "has not been processed by the operator of KEDA yet"}},
		"Initialized": {[]any{map[string]any{"type": "Ready", "status": "Unknown"}}, nil, keda.State{Problem: "has not been processed"}},
		"Ready":       {[]any{condition("Ready", "True"), condition("Paused", "False")}, nil, keda.State{}},
		"Active":      {[]any{condition("Ready", "True"), condition("HPAActive", "True")}, nil, keda.State{}},
		"NotReady":    {[]any{condition("Ready", "False"), condition("HPAActive", "True")}, nil, keda.State{Problem: "is not ready: Ready is False"}},
		"Unknown":     {[]any{condition("Ready", "Unknown")}, nil, keda.State{Problem: "is not ready: Ready is Unknown"}},
		"NotActive":   {[]any{condition("Ready", "True"), condition("HPAActive", "False")}, nil, keda.State{Problem: "is not active: HPAActive is False"}},
		"Paused":      {[]any{condition("Ready", "True"), condition("HPAActive", "False"), condition("Paused", "True")}, nil, keda.State{Paused: true}},
		"Deleted":     {[]any{condition("Ready", "True")}, &now, keda.State{Problem: "has not removed its finalizers: finalizer.keda.sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := keda.New()
			object.SetName("orders")
			object.SetDeletionTimestamp(test.deleted)
			object.SetFinalizers([]string{"finalizer.keda.sh"})
			object.Object["status"] = map[string]any{"conditions": test.conditions}
			got := keda.StateOf("orders", object)
			if got.Paused != test.want.Paused || !strings.Contains(got.Problem, test.want.Problem) || test.want.Problem == "" && got.Problem != "" {
				t.Errorf("the state is %+v, want %+v", got, test.want)
			}
		})
	}
}
