package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestKillsAroundSleep kills the activator, the API server and the operator while a function
// falls asleep, and the activator once more while it holds a request. The function still sleeps
// and wakes, only the held request is lost, and no other client than the activator changes the
// number of replicas.
func TestKillsAroundSleep(t *testing.T) {
	enter(t)
	h, tr := world(t), newTrial(t)
	defer tr.explain()
	activator, _, err := h.plane.StartActivator(t.Context())
	tr.must(err)
	t.Cleanup(activator.Kill)
	s := newServer(tr)
	tr.create(func(spec *v1beta1.FunctionSpec) {
		spec.ServerPort = s.port
		spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), SleepAfter: &metav1.Duration{Duration: v1beta1.MinSleepAfter}}
	})
	tr.awaitReady()
	s.address()

	tr.await(s.taken)
	former := s.leader()
	activator.Kill()
	tr.must(activator.Start())

	tr.await(func() error {
		if s.leader() == former {
			return errors.New("the next activator does not lead")
		}
		return s.taken()
	})
	h.plane.APIServer.Kill()
	tr.must(h.plane.APIServer.Start())
	tr.must(h.plane.Await(t.Context()))

	tr.await(func() error { return s.replicas(1, 0) })
	h.restart()
	tr.await(tr.rests)
	tr.await(s.taken)

	held := make(chan error, 1)
	go func() { held <- s.call() }()
	tr.await(func() error { return s.replicas(1, 0, 1) })
	activator.Kill()
	if err := <-held; err == nil {
		t.Error("a request got a response, although no pod received it")
	}
	tr.must(activator.Start())
	tr.await(tr.reason(v1beta1.ReasonServing)) // it was also ready while it slept
	s.address()
	tr.await(s.listens)
	tr.must(s.call())
	if s.replicas(1, 0, 1, 0) != nil { // it may sleep again
		tr.must(s.replicas(1, 0, 1))
	}
}

// server serves in place of the pods of the trial's Function. It reports that it has had no
// request for an hour.
type server struct {
	*trial
	ip   string
	port int32
}

func newServer(tr *trial) *server {
	tr.t.Helper()
	s := &server{trial: tr, ip: "127.0.9.1"}
	listen := func(port int, handler http.HandlerFunc) int32 {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", s.ip, port))
		tr.must(err)
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }() // until it is closed
		tr.t.Cleanup(func() { _ = server.Close() })
		return int32(l.Addr().(*net.TCPAddr).Port)
	}
	s.port = listen(0, func(http.ResponseWriter, *http.Request) {})
	listen(v1beta1.AdminPort, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"idleSeconds":3600}`) })
	return s
}

// address gives the pod an address, as a node does.
func (s *server) address() {
	s.t.Helper()
	var pods corev1.PodList
	s.must(world(s.t).client.List(s.t.Context(), &pods, client.InNamespace(s.ns)))
	patch := fmt.Appendf(nil, `{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, s.ip, s.ip)
	for i := range pods.Items {
		s.must(world(s.t).client.Status().Patch(s.t.Context(), &pods.Items[i], client.RawPatch(types.MergePatchType, patch)))
	}
}

// slice returns the EndpointSlice of the activator.
func (s *server) slice() (slice discoveryv1.EndpointSlice, err error) {
	err = world(s.t).client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns, Name: subject + "-activator"}, &slice)
	return slice, err
}

// taken returns nil if the activator receives the requests.
func (s *server) taken() error {
	slice, err := s.slice()
	if err == nil && len(slice.Endpoints) == 0 {
		err = errors.New("the slice names no activator")
	}
	return err
}

// leader returns the activator that holds the lease.
func (s *server) leader() string {
	s.t.Helper()
	var lease coordinationv1.Lease
	s.must(world(s.t).client.Get(s.t.Context(), client.ObjectKey{Namespace: "goless-system", Name: "goless-activator"}, &lease))
	return *lease.Spec.HolderIdentity
}

// replicas returns nil if the Deployment has had these numbers of replicas, in this order.
func (s *server) replicas(want ...int64) error {
	var had []int64
	for _, v := range world(s.t).witness.of("Deployment", s.ns, subject) {
		had = append(had, replicasOf(v.Unstructured))
	}
	if had = slices.Compact(had); !slices.Equal(had, want) {
		return fmt.Errorf("the Deployment has had %v replicas, want %v", had, want)
	}
	return nil
}

// call sends a request to the activator.
func (s *server) call() error {
	slice, err := s.slice()
	if err != nil {
		return err
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: *patience}
	response, err := once.Get(fmt.Sprintf("http://127.0.0.1:%d/", *slice.Ports[0].Port))
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing is read
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// listens returns nil if the activator accepts connections.
func (s *server) listens() error {
	slice, err := s.slice()
	if err != nil {
		return err
	}
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", *slice.Ports[0].Port))
	if err != nil {
		return err
	}
	return connection.Close()
}
