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
	// maxRolling is the most functions of a class that are rolled out at the same time.
	maxRolling = 20

	// patience is how long a function that was admitted, and is not rolled out, keeps others waiting.
	// It is as long as the Deployment controller waits for a rollout by default.
	patience = 10 * time.Minute
)

// A wave is the functions of a class that may be rolled out now, and are not yet as the class says.
type wave struct {
	hash string // of the class

	// admitted has the functions, and since when each may be rolled out.
	admitted map[types.NamespacedName]time.Time
}

// A member is a function of a class that has a Deployment.
type member struct {
	name types.NamespacedName

	// ready tells whether the Function is ready, as far as its status says.
	ready bool

	// updated tells whether the Deployment is as the class says now.
	updated bool

	// rollout is how far the Deployment is, for whatever reason it was changed.
	rollout rollout
}

// progress tells how many of the functions of a class run as it says.
type progress struct {
	functions int // that have the class
	updated   int // whose Deployments are as the class says
	complete  int // that are updated, and whose rollout is over
	rolling   int // that are being rolled out, because of the class or for another reason

	// failed are the functions whose Deployments could not be changed, or whose rollouts were given up.
	failed []types.NamespacedName
}

// reached returns how far a class is. A function that a wave has admitted and that is not updated could
// not be changed if it is not ready.
func reached(members []member, w wave) progress {
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

// next returns the wave that follows another one. With the functions that are being rolled out already,
// for whatever reason, it has a tenth of all functions, and at least one. A function that is being
// rolled out anyway may be rolled out to the class as it is. After that come functions that are
// ready, because others may fail whatever the class says.
func next(members []member, before wave, hash string, now time.Time) wave {
	free := min(max(len(members)/10, 1), maxRolling)
	w := wave{hash: hash, admitted: map[types.NamespacedName]time.Time{}}
	var ready, others []types.NamespacedName
	for _, m := range members {
		since, admitted := before.admitted[m.name]
		switch {
		case m.rollout == rolling:
			free--
			if !m.updated {
				w.admitted[m.name] = now
			}
		case m.updated:
		case admitted:
			if before.hash != hash {
				since = now
			}
			if now.Sub(since) < patience {
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

// rollout is how far a Deployment is with its latest template.
type rollout int

const (
	over rollout = iota
	rolling
	givenUp // by the Deployment controller, or because somebody has paused it
)

// rolloutOf tells how far a Deployment is. Once all pods of its latest template have been available, it
// is no rollout if the function is scaled, wakes or loses a pod.
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
