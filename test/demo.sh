#!/usr/bin/env bash
# The part of make demo after the installation: applies a Function, waits until it is
# ready and calls it. Every command is printed before it runs.
set -euo pipefail

run() {
	printf '\n$ %s\n' "$*"
	"$@"
}

# call calls the function through its Service and the API server, which works outside
# of the cluster. It retries, because a Service may take a moment to route requests to
# a pod that has just become ready.
call() {
	printf '\n$ kubectl get --raw .../services/http:%s/proxy%s\n' "$1:$2" "$3"
	local answer
	for _ in $(seq 1 50); do
		if answer=$(kubectl get --raw "/api/v1/namespaces/default/services/http:$1:$2/proxy$3" 2>&1); then
			printf '%s\n' "$answer"
			return
		fi
		sleep 0.2
	done
	echo "the Service does not answer after ten seconds: $answer" >&2
	return 1
}

# progress prints the status each time it changes.
progress() {
	local last='' now
	for _ in $(seq 1 600); do
		now=$(kubectl get function "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].reason}: {.status.conditions[?(@.type=="Ready")].message}')
		if [[ $now != "$last" && $now != ': ' ]]; then
			printf '  %(%H:%M:%S)T  %s\n' -1 "$now"
			last=$now
		fi
		if kubectl wait --for=condition=Ready "function/$1" --timeout=0s >/dev/null 2>&1; then
			return
		fi
		sleep 0.2
	done
	echo "function/$1 is not ready after two minutes:" >&2
	kubectl describe "function/$1" >&2
	return 1
}

printf '\n==> a function from source to answer\n'
run cat examples/hello.yaml
run kubectl apply -f examples/hello.yaml
progress function-sample
run kubectl get functions -o wide
call sample 9000 /

printf '\n==> its log, and some of its metrics, which it has without a line of code\n'
run kubectl logs deployment/function-sample --tail 2
printf '\n$ kubectl get --raw .../services/http:sample:9090/proxy/metrics\n'
kubectl get --raw /api/v1/namespaces/default/services/http:sample:9090/proxy/metrics |
	grep -E '^(total_invocations|http_server_request_duration_seconds_(count|sum)|goless_build_info)'

cat <<TXT

==> how to go on
  ${ENV_FILE:+. $ENV_FILE    # kubectl and ko for this cluster
  }kubectl edit function function-sample     # change the source, indented by spaces, and see it roll out
  kubectl get function function-sample -o yaml
  kubectl port-forward service/sample 9000  # then: curl localhost:9000
  kubectl apply -f examples/
==> how to clean up
  kubectl delete -f examples/hello.yaml
  make cluster-down
TXT
