// Package monitoring holds the tests of deploy/monitoring: a real Prometheus
// scrapes a real function, operator and activator, and answers every query of the
// dashboards and of the alerts. Of nodes it knows nothing; what a cluster would say
// of a pod, it makes up.
package monitoring
