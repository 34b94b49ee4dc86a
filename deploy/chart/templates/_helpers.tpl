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
