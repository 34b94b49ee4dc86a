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
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/function"
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

// Functions whose requests fail, or get no answer, are no concern of others: of those
// in other namespaces, however many there are, and of those beside them.
func TestNeighbours(t *testing.T) {
	const beside, elsewhere = 50, 200
	failing, hanging, well := newNamespace(t), newNamespace(t), newNamespace(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	var held atomic.Int32
	log := &writeLog{answer: func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return nil, nil
		}
		switch {
		case strings.Contains(r.URL.Path, "/failing-"):
			return nil, errors.New("no route to host")
		case strings.Contains(r.URL.Path, "/hanging-"):
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
		for _, namespace := range []string{failing, hanging, well} {
			if err := cluster.DeleteAllOf(context.Background(), &v1beta1.Function{}, client.InNamespace(namespace)); err != nil {
				t.Error(err)
			}
		}
	})
	crowd := func(name, namespace string, many int) {
		for n := range many {
			create(t, fmt.Sprintf("%s-%d", name, n), func(fn *v1beta1.Function) { fn.Namespace, fn.Spec.Service = namespace, fn.Name })
		}
	}
	crowd("failing", failing, 200)
	crowd("hanging", hanging, elsewhere)
	crowd("hanging", well, beside)
	all := int32(function.Share + beside)
	eventually(t, "they get no answer", func() bool { return held.Load() == all })
	began := time.Now()
	fn := create(t, "well", func(fn *v1beta1.Function) { fn.Namespace = well })
	serve(t, fn)
	t.Logf("a Function that is well was ready after %s", time.Since(began))
	eventually(t, "the same get no answer yet", func() bool { return held.Load() == all })
	if ready := meta.FindStatusCondition(get(t, fn).Status.Conditions, v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonServing {
		t.Errorf("Ready is %v", ready)
	}
}
