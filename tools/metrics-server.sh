#!/usr/bin/env bash
# Installs metrics-server, of the version in test/neighbours/metrics-server, in the cluster of
# KUBECONFIG, or removes it: metrics-server.sh apply|delete. The image is pushed to KO_DOCKER_REPO.
# A cluster that has another one keeps it. metrics-server verifies the certificates of the kubelets,
# which must be of the CA of the cluster.
set -euo pipefail
cd "$(dirname "$0")/../test/neighbours/metrics-server"
export GOWORK=off
api=apiservice/v1beta1.metrics.k8s.io
ours=goless.io/test=metrics-server

if [ "$1" = delete ]; then
  # While a registered API is unavailable, namespaces cannot be deleted, so it is the first.
  kubectl delete apiservices -l "$ours"
  kubectl delete clusterroles,clusterrolebindings -l "$ours"
  kubectl -n kube-system delete deployments,services,serviceaccounts,rolebindings -l "$ours"
  exit
fi
if kubectl get "$api" >/dev/null 2>&1 && [ -z "$(kubectl get apiservices -l "$ours" -o name)" ]; then
  echo "metrics-server.sh: the cluster has another metrics server" >&2
  exit
fi
printf '\n==> installing metrics-server (some minutes to build it the first time)\n' >&2
tool=$(go list tool)
image=$(ko build --preserve-import-paths "$tool")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -r "$(go list -f '{{.Module.Dir}}' "$tool")/manifests" "$dir"
chmod -R u+w "$dir"
cat >"$dir/kustomization.yaml" <<END
resources: [manifests/base]
labels: [{pairs: {${ours/=/: }}}]
images:
  - name: gcr.io/k8s-staging-metrics-server/metrics-server
    newName: ${image%@*}
    digest: ${image#*@}
patches:
  - target: {kind: Deployment, name: metrics-server}
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --kubelet-certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt
END
kubectl apply --server-side -k "$dir"
kubectl -n kube-system rollout status deployment/metrics-server --timeout=3m
kubectl wait --for=condition=Available "$api" --timeout=3m
