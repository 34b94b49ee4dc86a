// Package monitoring holds the tests of deploy/monitoring: a real Prometheus
// scrapes a real function, and answers every query of the dashboard and of the
// alerts. It knows nothing of Kubernetes; what a cluster would say of a pod, it
// makes up.
package monitoring
