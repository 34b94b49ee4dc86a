#!/usr/bin/env bash
# Builds the neighbours NAME..., which are directories of test/neighbours, and tests Goless with
# each of them on the cluster of KUBECONFIG. The tests are in test/e2e, and their names start with
# TestNeighbour and the name: TestNeighbourMetricsServer for metrics-server. They read these
# variables:
#
#   IMAGE_PROGRAM  the image of each tool in go.mod, such as IMAGE_KUBE_ROUTER
#   MANIFESTS      the directory with the source of the first tool's module
#   VERSION        the version of that module
#   ROW            a file: the tests write what they have seen there, one sentence per line after its
#                  place in the source and a tab
#
# What the tests of a neighbour have seen, if all pass, becomes its row in the table of
# docs/how-to/install.md. A neighbour without go.mod is a program of ours, or its tests need no image.
#
# More files of a neighbour are optional:
#
#   tests          the names of other tests to run, one per line
#   packages       the programs that it executes on the node, one per line, each of the package of
#                  Debian with its name
#   module         the module of test/go.mod whose version is that of the neighbour
#   chart          the tests of the Helm chart run too: a sentence for the row of the neighbour
#   cluster        environment variables of cluster up, such as NODES=2. The neighbour is then
#                  tested on another cluster, which replaces the one of this checkout. With NODES=1
#                  that cluster is like the default one
#
# make neighbours runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."

# A row begins with the name of the neighbour, so that sort keeps one for each.
table() {
  local page=docs/how-to/install.md rows=.cache/neighbours/rows
  { cat .cache/neighbours/*.row; sed -n '/^<!-- make neighbours/,/^<!-- end/p' "$page" | grep '^| [a-z]' | grep -v '^| software ' || true; } |
    sort -t '|' -k 2,2 -s -u >"$rows"
  awk -v rows="$rows" '
    /^<!-- end/ { inside = 0 }
    !inside { print }
    /^<!-- make neighbours/ {
      inside = 1
      print "\n| software | version | result | date |\n|---|---|---|---|"
      while ((getline row < rows) > 0) print row
      print ""
    }' "$page" >"$rows.md"
  cat "$rows.md" >"$page"
}

if [ $# != 1 ]; then
  failed=()
  # Those that replace the cluster are last.
  for name; do [ -e "test/neighbours/$name/cluster" ] || "$0" "$name" || failed+=("$name"); done
  for name; do [ ! -e "test/neighbours/$name/cluster" ] || "$0" "$name" || failed+=("$name"); done
  [ ${#failed[@]} = 0 ] || { echo "failed with these neighbours: ${failed[*]}" >&2; exit 1; }
  exit
fi

name=$1
root=$PWD

# Starts the cluster of the neighbour, and runs this script on it. It is stopped at the end.
on_own_cluster() {
  if [ "$KUBECONFIG" != "$root/.cache/cluster/kubeconfig" ]; then
    echo "skipping $name: it replaces the cluster, and KUBECONFIG is not that of this checkout" >&2
    return
  fi
  trap 'make cluster-down' EXIT
  make cluster-down
  env -u GOWORK -u KUBECONFIG -u KO_DOCKER_REPO NEIGHBOUR_CLUSTER="$name" $(cat "test/neighbours/$name/cluster") make neighbours ONLY="$name"
}
if [ -e "test/neighbours/$name/cluster" ] && [ "${NEIGHBOUR_CLUSTER-}" != "$name" ]; then
  on_own_cluster
  exit
fi

mkdir -p .cache/neighbours
rm -f .cache/neighbours/*.row
export GOWORK=off ROW=$root/.cache/neighbours/$name.seen VERSION='' MANIFESTS=''
rm -f "$ROW"
cd "test/neighbours/$name" || { echo "there is no neighbour $name; there are: $(ls test/neighbours | xargs)" >&2; exit 1; }
if [ -e packages ] && [ "$(command -v $(cat packages) | wc -l)" != "$(wc -l <packages)" ]; then
  printf '\n==> installing %s from Debian\n' "$(paste -sd ' ' packages)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends $(cat packages) >/dev/null
fi
if [ -e go.mod ]; then
  printf '\n==> building %s (some minutes the first time)\n' "$name"
  for tool in $(go list tool); do
    image=$(ko build --preserve-import-paths "$tool")
    export "IMAGE_$(basename "$tool" | tr a-z- A-Z_)=$image"
    VERSION=${VERSION:-$(go list -f '{{.Module.Version}}' "$tool")}
    MANIFESTS=${MANIFESTS:-$(go list -f '{{.Module.Dir}}' "$tool")}
  done
elif [ -e main.go ]; then
  image=$(cd "$root/test" && ko build --base-import-paths "./neighbours/$name")
  export "IMAGE_$(tr a-z- A-Z_ <<<"$name")=$image"
  VERSION=$(git -C "$root" describe --always)
elif [ -e module ]; then
  VERSION=$(cd "$root/test" && go list -m -f '{{.Path}} {{.Version}}' "$(cat "$root/test/neighbours/$name/module")")
else
  VERSION=$(kubectl get nodes -o 'jsonpath={.items[0].status.nodeInfo.kubeletVersion}')
fi
tests="(?i)^TestNeighbour${name//[^a-z0-9]/}"
[ ! -e tests ] || tests="$tests|(?-i)^($(paste -sd '|' tests))\$"
printf '\n==> testing with %s %s\n' "$name" "$VERSION"
cd "$root/test"
gotestsum --format standard-quiet -- -vet=off -count=1 -timeout 60m -run "$tests" ./e2e
cd "$root"
if [ -e "test/neighbours/$name/chart" ]; then
  env -u GOWORK -u KUBECONFIG -u KO_DOCKER_REPO make e2e-chart
  sed 's/^/the chart\t/' "test/neighbours/$name/chart" >>"$ROW"
fi
echo "| $name | $VERSION | $(LC_ALL=C sort "$ROW" | cut -f 2 | paste -sd ' ') | $(date +%F) |" >".cache/neighbours/$name.row"
table
