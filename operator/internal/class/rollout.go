package class

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/workload"
)

const (
	// maxRolling is the maximum number of functions of a class that are rolled out at the same
	// time.
	maxRolling = 20

	// memberTimeout is the time for which an admitted function that is not updated delays others.
	// It equals the default progressDeadlineSeconds of a Deployment.
	memberTimeout = 10 * time.Minute

	// admittedRecheck is the time after which a function that was admitted and is neither updated nor
	// ready is reported as failed.
	admittedRecheck = 10 * time.Second
)

// A stagedRollout contains the functions of a class that may be updated now and are not up to date
// yet.
type stagedRollout struct {
	hash string // hash of the class

	// admitted contains the functions, with the time since which each may be updated.
	admitted map[types.NamespacedName]time.Time
}

// A member is a function of a class that has a Deployment.
type member struct {
	name types.NamespacedName

	// ready is true if the status of the Function is Ready.
	ready bool

	// updated is true if the Deployment matches the current class.
	updated bool

	// rollout is the state of the Deployment's rollout, whatever its cause.
	rollout rollout

	// verified is true if the rollout waits for its verification, which may take long. It does not
	// delay other functions.
	verified bool
}

// progress summarizes the functions of a class.
type progress struct {
	functions int // that have the class
	updated   int // whose Deployments match the class
	complete  int // updated, with a finished rollout
	rolling   int // with a rollout in progress, whatever its cause

	// failed contains the functions whose Deployment could not be updated or whose rollout failed.
	failed []types.NamespacedName
}

// share returns how many of the concurrent updates a rollout uses: 0 while it is verified,
// otherwise 1.
func (m member) share() int {
	if m.verified {
		return 0
	}
	return 1
}

// progressOf returns the progress of a class. An admitted function that is neither updated nor
// ready counts as failed.
func progressOf(members []member, w stagedRollout) progress {
	p := progress{functions: len(members)}
	for _, m := range members {
		_, admitted := w.admitted[m.name]
		if m.updated {
			p.updated++
		}
		switch {
		case m.rollout == rolling:
			p.rolling++
		case m.updated && m.rollout == givenUp, !m.updated && admitted && !m.ready:
			p.failed = append(p.failed, m.name)
		case m.updated:
			p.complete++
		}
	}
	return p
}

// nextRollout returns the staged rollout that follows before. At most a tenth of all functions, at
// least one and at most maxRolling, are updated at the same time. That includes functions with a
// rollout for another reason, but not those that were admitted more than memberTimeout ago.
//
// A function with a rollout in progress is always admitted. After that, ready functions come first,
// because others may fail whatever the class is.
func nextRollout(members []member, before stagedRollout, hash string, now time.Time) stagedRollout {
	free := min(max(len(members)/10, 1), maxRolling)
	w := stagedRollout{hash: hash, admitted: map[types.NamespacedName]time.Time{}}
	var ready, others []types.NamespacedName
	for _, m := range members {
		since, admitted := before.admitted[m.name]
		switch {
		case m.rollout == rolling:
			free -= m.share()
			if !m.updated {
				w.admitted[m.name] = now
			}
		case m.updated:
		case admitted:
			if before.hash != hash {
				since = now
			}
			if now.Sub(since) < memberTimeout {
				free--
			}
			w.admitted[m.name] = since
		case m.ready:
			ready = append(ready, m.name)
		default:
			others = append(others, m.name)
		}
	}
	waiting := slices.Concat(ready, others)
	for _, name := range waiting[:min(max(free, 0), len(waiting))] {
		w.admitted[name] = now
	}
	return w
}

// recheck returns the time after which a class must be reconciled without an event: a function that
// cannot be updated may cause none. It is admittedRecheck after a function was admitted, and the time
// until an admitted function no longer delays others. It is 0 if no function is admitted.
func recheck(before, w stagedRollout, now time.Time) (after time.Duration) {
	for name, since := range w.admitted {
		left := memberTimeout - now.Sub(since)
		if _, known := before.admitted[name]; !known || before.hash != w.hash {
			left = admittedRecheck
		}
		if left > 0 && (after == 0 || left < after) {
			after = left
		}
	}
	return after
}

// rollout is the state of a Deployment's latest pod template.
type rollout int

const (
	over rollout = iota
	rolling
	givenUp // the progress deadline was exceeded, or the Deployment is paused
)

// rolloutOf returns the state of a Deployment. Once all pods of the latest template have been
// available, the rollout stays over if the function is scaled, wakes or loses a pod.
func rolloutOf(d *appsv1.Deployment) rollout {
	s, want := d.Status, workload.Replicas(d)
	progressing := workload.Progressing(d)
	switch {
	case s.ObservedGeneration < d.Generation:
		return rolling
	case progressing.Status == corev1.ConditionFalse:
		return givenUp
	case progressing.Reason == workload.NewReplicaSetAvailable && s.UpdatedReplicas == s.Replicas:
		return over
	case s.UpdatedReplicas >= want && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= want:
		return over
	case d.Spec.Paused:
		return givenUp
	}
	return rolling
}
