// Package monitoring tests deploy/monitoring: a real Prometheus scrapes a real function,
// operator and activator, and evaluates every query of the dashboards and of the alerts. There
// are no nodes; metrics about pods are generated.
package monitoring
