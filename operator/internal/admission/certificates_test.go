package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fakeSecret is a client for the Secret, and for a configuration without webhooks.
type fakeSecret struct {
	client.Client
	data    map[string][]byte
	refusal error // error of updates
}

func (c *fakeSecret) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if secret, ok := into.(*corev1.Secret); ok {
		secret.UID, secret.Data = "a", c.data
	}
	return nil
}

func (c *fakeSecret) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	if c.refusal == nil {
		c.data = object.(*corev1.Secret).Data
	}
	return c.refusal
}

// A certificate is renewed when a third of its life remains. A failed renewal is logged once and
// retried. The old certificate is served until the next check, and its authority is trusted until
// the next renewal.
func TestRenewal(t *testing.T) {
	const month = certificateLife / 12
	data, err := issueKeyPair(Name+".goless-system.svc", 3*month, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := parseKeyPair(data, Name+".goless-system.svc", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var logs strings.Builder
	stored := &fakeSecret{data: data}
	k := &certificates{
		options: Options{Namespace: "goless-system"}, client: stored,
		log: funcr.New(func(_, args string) { logs.WriteString(args) }, funcr.Options{}),
	}
	look := func(refusal error) *tls.Certificate {
		stored.refusal = refusal
		k.logResult(k.sync(t.Context(), time.Now()))
		return k.serving.Load()
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, Name, errors.New("another replica has written it"))
	for _, refusal := range []error{errors.New("etcd is full"), errors.New("etcd is full"), conflict} {
		if !equal(look(refusal), old.served) {
			t.Errorf("after %v the previous certificate is not served", refusal)
		}
	}
	if n := strings.Count(logs.String(), "etcd is full"); n != 1 || strings.Contains(logs.String(), "another replica") {
		t.Errorf("etcd is full was logged %d times: %s", n, logs.String())
	}
	if !equal(look(nil), old.served) {
		t.Error("the new certificate is served before all API servers trust it")
	}
	if string(stored.data[corev1.TLSCertKey]) == string(data[corev1.TLSCertKey]) {
		t.Error("the certificate was not renewed")
	}
	first := stored.data
	if equal(look(nil), old.served) || !bytes.Equal(stored.data[corev1.TLSCertKey], first[corev1.TLSCertKey]) {
		t.Error("the new certificate is not served, or was renewed again")
	}
	if err := k.sync(t.Context(), time.Now().Add(9*month)); err != nil {
		t.Fatal(err)
	}
	last, _ := pem.Decode(first[authorityKey])
	if rest, ok := bytes.CutSuffix(stored.data[authorityKey], pem.EncodeToMemory(last)); !ok || bytes.Equal(rest, first[authorityKey]) {
		t.Errorf("after another renewal, the trusted authorities are:\n%s", stored.data[authorityKey])
	} else if _, rest = pem.Decode(rest); len(rest) > 0 {
		t.Errorf("more than the new and the previous authority are trusted:\n%s", stored.data[authorityKey])
	}
}
