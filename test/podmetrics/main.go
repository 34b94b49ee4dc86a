// Command podmetrics serves the processor and memory use of pods as API metrics.k8s.io/v1beta1,
// in the cluster. It replaces metrics-server in one test, because that takes three minutes of
// processor time to build, and needs an API server with certificates for it. Like
// metrics-server it reads the measurements of the kubelets. Unlike it, it serves only pods, no
// lists over all namespaces, and does not authenticate its clients.
//
//	main.go   the API
//	usage.go  the measurements of the kubelets, and the use between two of them
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// pause is the time between two requests to the kubelets, which measure about every ten
// seconds.
const pause = 5 * time.Second

const version = "metrics.k8s.io/v1beta1"

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	s := &server{client: kubernetes.NewForConfigOrDie(config)}
	certificate, key, err := cert.GenerateSelfSignedCertKey("podmetrics", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		log.Fatal(err)
	}
	go s.measure(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+version, resources)
	mux.HandleFunc("GET /apis/"+version+"/namespaces/{namespace}/pods", s.pods)
	server := &http.Server{
		Addr: ":8443", Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

type server struct {
	client *kubernetes.Clientset
	usage  usage
}

// measure reads the measurements of the kubelets until ctx ends.
func (s *server) measure(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(pause) {
		nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			log.Print("listing the nodes: ", err)
			continue
		}
		for _, node := range nodes.Items {
			text, err := s.client.CoreV1().RESTClient().Get().
				Resource("nodes").Name(node.Name).SubResource("proxy").Suffix("metrics/resource").DoRaw(ctx)
			if err == nil {
				err = s.usage.add(node.Name, text)
			}
			if err != nil {
				log.Printf("asking the kubelet of %s: %v", node.Name, err)
			}
		}
	}
}

// resources serves the resources of the API, for discovery.
func resources(w http.ResponseWriter, _ *http.Request) {
	answer(w, metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: version,
		APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"list"}}},
	})
}

// pods serves the pods of a namespace that match a label selector and whose use is known.
func (s *server) pods(w http.ResponseWriter, r *http.Request) {
	namespace := r.PathValue("namespace")
	pods, err := s.client.CoreV1().Pods(namespace).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := podMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "PodMetricsList"}, Items: []podMetrics{}}
	for _, pod := range pods.Items {
		if m, ok := s.usage.of(namespace, pod.Name); ok {
			m.Labels = pod.Labels
			list.Items = append(list.Items, m)
		}
	}
	answer(w, list)
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the client may have disconnected
}
