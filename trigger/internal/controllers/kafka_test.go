package controllers_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/keda"
)

func kafkaTrigger(namespace string) *v1alpha1.KafkaTrigger {
	return &v1alpha1.KafkaTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "records"},
		Spec: v1alpha1.KafkaTriggerSpec{
			StreamSpec: v1alpha1.StreamSpec{FunctionRef: v1alpha1.FunctionReference{Name: "report"}},
			Brokers:    []v1alpha1.KafkaBroker{"kafka.example.com:9093"}, Topic: "orders", DeadLetter: "orders.dead",
			Authentication: &v1alpha1.KafkaAuthentication{Mechanism: v1alpha1.KafkaScramSHA512, User: "shop", Password: v1alpha1.SecretKey{Name: "kafka", Key: "password"}},
			TLS:            &v1alpha1.StreamTLS{CA: &v1alpha1.SecretKey{Name: "kafka", Key: "ca.crt"}, SecretName: "certificate"},
		},
	}
}

// A trigger becomes a Deployment that consumes its topic, and where it says so a ScaledObject of
// KEDA, both under the access policy. It may come before its Function.
func TestKafkaTrigger(t *testing.T) {
	t.Parallel()
	trigger := kafkaTrigger(newNamespace(t))
	trigger.Spec.Scale, trigger.Spec.Batch = &v1alpha1.StreamScale{Max: 5}, &v1alpha1.StreamBatch{Size: 100}
	trigger.Spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))}}
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	deployment := deploymentOf(trigger)
	read(t, deployment)
	if *deployment.Spec.Replicas != 0 {
		t.Error("it takes events for a Function that does not exist")
	}
	fn := newFunction(t, trigger.Namespace)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonConsumerNotReady)
	eventually(t, "there is a pod to be", func() bool { read(t, deployment); return *deployment.Spec.Replicas == 1 })
	if !metav1.IsControlledBy(deployment, trigger) {
		t.Error("the Deployment does not belong to the trigger, and would stay when that is deleted")
	}
	want := []string{
		"kafka", "--url=" + fn.Status.URL + "/", "--timeout=2m10s",
		"--source=/apis/goless.io/v1alpha1/namespaces/" + trigger.Namespace + "/kafkatriggers/records",
		"--tries=10", "--concurrency=16", "--dead-letter=orders.dead", "--drop=false", "--drain=30s", "--batch=100",
		"--brokers=kafka.example.com:9093", "--topic=orders", "--group=goless_" + trigger.Namespace + "_records",
		"--former-group=goless-" + trigger.Namespace + "-records",
		"--mechanism=SCRAM-SHA-512", "--user=shop", "--password-file=/etc/goless/credentials/password",
		"--tls", "--ca-file=/etc/goless/credentials/ca.crt", "--cert-file=/etc/goless/credentials/tls.crt", "--key-file=/etc/goless/credentials/tls.key",
	}
	if diff := cmp.Diff(want, deployment.Spec.Template.Spec.Containers[0].Args); diff != "" {
		t.Errorf("the arguments (-want +got):\n%s", diff)
	}
	newConsumingPod(t).running(t, trigger, true)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonScaleNotReady)
	scaled := keda.New()
	scaled.SetNamespace(trigger.Namespace)
	scaled.SetName(trigger.Name)
	kedaReports(t, scaled, map[string]string{"Ready": "True"})
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonNoEvents)
	read(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: "records-lag"}})
}

// A KafkaTrigger and a NATSTrigger of the same name do not take the Deployment of each other.
func TestSameName(t *testing.T) {
	t.Parallel()
	first := kafkaTrigger(newNamespace(t))
	create(t, first)
	await(t, first, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	second := natsTrigger(first.Namespace)
	second.Name = first.Name
	create(t, second)
	await(t, second, v1alpha1.ConditionReady, v1alpha1.ReasonNotOwned)
	deployment := deploymentOf(first)
	if read(t, deployment); !metav1.IsControlledBy(deployment, first) {
		t.Error("the Deployment is not that of the first trigger any more")
	}
}

// The API server rejects an invalid KafkaTrigger and names the field in the message.
func TestKafkaSchema(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, test := range map[string]struct {
		edit func(*v1alpha1.KafkaTriggerSpec)
		want string // "" if it is accepted
	}{
		"Most": {func(*v1alpha1.KafkaTriggerSpec) {}, ""},
		"Least": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.DeadLetter, s.Authentication, s.TLS = "", nil, nil
		}, ""},
		"PublicTLS": {func(s *v1alpha1.KafkaTriggerSpec) { s.TLS = &v1alpha1.StreamTLS{} }, ""},
		"IPv6":      {func(s *v1alpha1.KafkaTriggerSpec) { s.Brokers[0] = "[2001:db8::7]:9092" }, ""},
		"Group":     {func(s *v1alpha1.KafkaTriggerSpec) { s.ConsumerGroup = "shop/orders:eu" }, ""},
		"NoBrokers": {func(s *v1alpha1.KafkaTriggerSpec) { s.Brokers = nil }, "spec.brokers"},
		"NoPort":    {func(s *v1alpha1.KafkaTriggerSpec) { s.Brokers[0] = "kafka.example.com" }, "spec.brokers"},
		"URL":       {func(s *v1alpha1.KafkaTriggerSpec) { s.Brokers[0] = "kafka://kafka.example.com:9092" }, "spec.brokers"},
		"Comma":     {func(s *v1alpha1.KafkaTriggerSpec) { s.Brokers[0] = "a:9092,b:9092" }, "spec.brokers"},
		"NoTopic":   {func(s *v1alpha1.KafkaTriggerSpec) { s.Topic = "" }, "spec.topic"},
		"TopicName": {func(s *v1alpha1.KafkaTriggerSpec) { s.Topic = "orders/eu" }, "spec.topic"},
		"GroupName": {func(s *v1alpha1.KafkaTriggerSpec) { s.ConsumerGroup = "a b" }, "spec.consumerGroup"},
		"Loop":      {func(s *v1alpha1.KafkaTriggerSpec) { s.DeadLetter = s.Topic }, "dead letters would be consumed again"},
		"Mechanism": {func(s *v1alpha1.KafkaTriggerSpec) { s.Authentication.Mechanism = "GSSAPI" }, "spec.authentication.mechanism"},
		"Plain":     {func(s *v1alpha1.KafkaTriggerSpec) { s.Authentication.Mechanism = v1alpha1.KafkaPlain }, ""},
		"CleartextPlain": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.Authentication.Mechanism, s.TLS = v1alpha1.KafkaPlain, nil
		}, "PLAIN sends the password unencrypted without tls"},
		"Insecure": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.Authentication.Mechanism, s.Authentication.Insecure, s.TLS = v1alpha1.KafkaPlain, true, nil
		}, ""},
		"ScramWithoutTLS": {func(s *v1alpha1.KafkaTriggerSpec) { s.TLS = nil }, ""},
		"NoUser":          {func(s *v1alpha1.KafkaTriggerSpec) { s.Authentication.User = "" }, "spec.authentication.user"},
		"NoPassword":      {func(s *v1alpha1.KafkaTriggerSpec) { s.Authentication.Password.Name = "" }, "spec.authentication.password"},
		"OnExhausted":     {func(s *v1alpha1.KafkaTriggerSpec) { s.OnExhausted = "Forget" }, "spec.onExhausted"},
		"Batch":           {func(s *v1alpha1.KafkaTriggerSpec) { s.Batch = &v1alpha1.StreamBatch{Size: 1000} }, ""},
		"NoBatch":         {func(s *v1alpha1.KafkaTriggerSpec) { s.Batch = &v1alpha1.StreamBatch{} }, "spec.batch.size"},
		"LargeBatch":      {func(s *v1alpha1.KafkaTriggerSpec) { s.Batch = &v1alpha1.StreamBatch{Size: 1001} }, "spec.batch.size"},
		"Resources": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("1Gi"))}}
		}, ""},
		"NoMemory": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("0"))}}
		}, "a limit must be more than 0"},
		"NegativeMemory": {func(s *v1alpha1.KafkaTriggerSpec) {
			s.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{Memory: new(resource.MustParse("-1"))}}
		}, "must be a number with an optional unit"},
		"Concurrency":  {func(s *v1alpha1.KafkaTriggerSpec) { s.Concurrency = 257 }, "spec.concurrency"},
		"ScaleToFewer": {func(s *v1alpha1.KafkaTriggerSpec) { s.Scale = &v1alpha1.StreamScale{Min: new(int32(5)), Max: 2} }, "less than min"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := kafkaTrigger(namespace)
			test.edit(&trigger.Spec)
			err := cluster.Create(t.Context(), trigger, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
