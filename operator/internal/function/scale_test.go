package function_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// refused is how an API server refuses a version.
const refused = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"no such version","code":409}`

// An API server may find that an object that is not there has not the version which
// a new one names. It gets a plain create then, and ends with the same object.
func TestCreateRefused(t *testing.T) {
	namespace := newNamespace(t)
	var conflicts atomic.Int32
	log := &writeLog{answer: func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/"+namespace+"/") {
			return nil, nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(`"resourceVersion":"1"`)) {
			return nil, nil
		}
		conflicts.Add(1)
		return &http.Response{
			StatusCode: http.StatusConflict, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(refused)),
		}, nil
	}}
	exchangeOperator(t, configured, log)
	fn := create(t, "refused", func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Replicas = namespace, new(int32(2)) })
	serve(t, fn)
	if conflicts.Load() < 4 {
		t.Errorf("%d creates were refused, there are 4 objects", conflicts.Load())
	}
	exchangeOperator(t, configured, writes)
	settled := len(about(writes.all(), fn))
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) })
	serve(t, fn)
	if all := about(writes.all(), fn)[settled:]; strings.Contains(strings.Join(all, " "), "configmaps") {
		t.Errorf("the object was not as it should be: %v", all)
	}
}

// Functions whose requests fail, or get no answer, are no concern of others.
func TestNeighbours(t *testing.T) {
	failing, hanging := newNamespace(t), newNamespace(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	var held atomic.Int32
	log := &writeLog{answer: func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return nil, nil
		}
		switch {
		case strings.Contains(r.URL.Path, "/"+failing+"/"):
			return nil, errors.New("no route to host")
		case strings.Contains(r.URL.Path, "/"+hanging+"/"):
			held.Add(1)
			defer held.Add(-1)
			select {
			case <-hold:
			case <-r.Context().Done():
			}
			return nil, errors.New("no answer")
		}
		return nil, nil
	}}
	exchangeOperator(t, configured, log)
	t.Cleanup(func() { // before there is an operator that makes Services of them: the range is small
		for _, namespace := range []string{failing, hanging} {
			if err := cluster.DeleteAllOf(context.Background(), &v1beta1.Function{}, client.InNamespace(namespace)); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 200 {
		create(t, fmt.Sprintf("failing-%d", n), func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Service = failing, fn.Name })
	}
	stuck := 4
	for n := range stuck {
		create(t, fmt.Sprintf("hanging-%d", n), func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Service = hanging, fn.Name })
	}
	eventually(t, "some get no answer", func() bool { return held.Load() == int32(stuck) })
	fn := create(t, "well", func(*v1beta1.Function) {})
	serve(t, fn)
	eventually(t, "the same get no answer yet", func() bool { return held.Load() == int32(stuck) })
	if ready := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonServing {
		t.Errorf("Ready is %v", ready)
	}
}
