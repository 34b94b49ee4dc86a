package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Activator is the activator's account, to which deploy/ grants permissions.
const Activator = "system:serviceaccount:goless-system:goless-activator"

// StartActivator compiles the activator as in its image, creates a pod for it, and starts it
// with an environment. It also returns the address of its admin port. Only one can run, because
// replicas listen on the same ports, each in a pod.
func (p *Plane) StartActivator(ctx context.Context, env ...string) (activator *Process, admin string, err error) {
	binary := p.path("goless-activator")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/goless-activator")
	build.Dir = filepath.Join(p.repo, "operator")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("compiling the activator: %w\n%s", err, out)
	}
	kubeconfig, err := p.kubeconfig("activator", p.server, p.tokens[Activator])
	if err != nil {
		return nil, "", err
	}
	ip, err := ownAddress()
	if err != nil {
		return nil, "", err
	}
	port := 0
	if err := errors.Join(freePorts(&port), p.StandForActivator(ctx, ip)); err != nil {
		return nil, "", err
	}
	admin = net.JoinHostPort(ip, strconv.Itoa(port))
	activator = &Process{
		Name: "activator",
		Argv: []string{binary, "--kubeconfig=" + kubeconfig, "--namespace=goless-system", "--admin-bind-address=:" + strconv.Itoa(port)},
		Env:  env,
		Log:  p.path("activator.log"),
	}
	return activator, admin, activator.Start()
}

// StandForActivator creates the pod of the activator, if it does not exist, with an address,
// and makes it ready.
func (p *Plane) StandForActivator(ctx context.Context, ip string) error {
	set, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		return err
	}
	pods := set.CoreV1().Pods("goless-system")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "activator", Labels: map[string]string{"app.kubernetes.io/name": "goless-activator"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "activator", Image: images + "activator", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		pod, err = pods.Get(ctx, "activator", metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// ownAddress returns an address of this machine that is valid in an EndpointSlice, which
// loopback addresses are not.
func ownAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this machine has no address but those of the loopback interface"))
}
