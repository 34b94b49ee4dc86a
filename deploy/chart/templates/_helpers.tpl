{{- /* An image of the values, pulled from images.mirror if it is set. */ -}}
{{- define "goless.image" -}}
{{- $image := index . 1 -}}
{{- with (index . 0).Values.images.mirror -}}
{{- printf "%s/%s" (trimSuffix "/" .) (base $image) -}}
{{- else -}}
{{- $image -}}
{{- end -}}
{{- end -}}

{{- /* Not empty if the webhook is installed. It is cluster-scoped, so it requires that config.namespaces is not set. */ -}}
{{- define "goless.admission" -}}
{{- if and .Values.admission.enabled (not .Values.config.namespaces) }}true{{ end -}}
{{- end -}}

{{- /* Additional fields of a pod spec. The pods of a lost node are replaced after 30 seconds, like those of functions, and not after the 5 minutes that Kubernetes sets by default. */ -}}
{{- define "goless.pod" -}}
{{- $lost := list -}}
{{- range list "not-ready" "unreachable" -}}
{{- $lost = append $lost (dict "key" (print "node.kubernetes.io/" .) "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30) -}}
{{- end -}}
{{- toYaml (merge (dict "tolerations" (concat (.tolerations | default list) $lost)) .) -}}
{{- end -}}
