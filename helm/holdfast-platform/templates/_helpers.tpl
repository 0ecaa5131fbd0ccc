{{/* Takes a list: root context, component. */}}
{{- define "platform.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{- define "platform.labels" -}}
{{- $root := index . 0 -}}
{{ include "platform.selector" . }}
app.kubernetes.io/part-of: holdfast-platform
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* Takes a list: root context, {repository, tag, digest}. */}}
{{- define "platform.image" -}}
{{- $root := index . 0 }}{{- $image := index . 1 -}}
{{ $image.repository }}:{{ $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "platform.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Takes the user's number. */}}
{{- define "platform.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "platform.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Takes a list: name, {size, storageClass}. */}}
{{- define "platform.claim" -}}
{{- $volume := index . 1 -}}
{{- /* Kubernetes adds both by itself, and a GitOps tool would see a difference. */ -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ index . 0 }}
spec:
  accessModes: [ReadWriteOnce]
  {{- with $volume.storageClass }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources: {requests: {storage: {{ $volume.size }}}}
{{- end }}

{{/* Takes the component's values. */}}
{{- define "platform.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "platform.bootstrapServers" -}}
{{- if .Values.jobs.bootstrapServers }}{{ .Values.jobs.bootstrapServers }}
{{- else if .Values.kafka.enabled }}kafka.{{ .Release.Namespace }}.svc:9092
{{- else }}{{ fail "jobs.bootstrapServers is required with kafka.enabled=false: the brokers of the jobs, host:port" }}
{{- end }}
{{- end }}

{{/* The namespaces that jobs are deployed into, as JSON. */}}
{{- define "platform.namespaces" -}}
{{ prepend .Values.jobs.moreNamespaces .Values.jobs.namespace | uniq | toJson }}
{{- end }}

{{- define "platform.schemaRegistry" -}}
http://schema-registry.{{ .Release.Namespace }}.svc:8081/apis/ccompat/v7
{{- end }}

{{/* Takes the component's values. */}}
{{- define "platform.annotations" -}}
{{- range $name, $value := .podAnnotations }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}
