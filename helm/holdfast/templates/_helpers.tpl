{{/* The release's name is the job's.  A label of the executors has it, `-executor-` and a hash of 10: Kubernetes allows 63. */}}
{{- define "holdfast.name" -}}
{{- if gt (len .Release.Name) 43 }}
{{- fail (printf "The release name %q has %d characters, at most 43 fit: names of pods and labels are made from it." .Release.Name (len .Release.Name)) }}
{{- end }}
{{- .Release.Name }}
{{- end }}

{{- define "holdfast.driver" -}}{{ include "holdfast.name" . }}-driver{{- end }}
{{- define "holdfast.executor" -}}{{ include "holdfast.name" . }}-executor{{- end }}
{{- define "holdfast.serve" -}}{{ include "holdfast.name" . }}-serve{{- end }}
{{- define "holdfast.sparkSecret" -}}{{ .Values.spark.existingSecret | default (printf "%s-spark" (include "holdfast.name" .)) }}{{- end }}

{{/* What the driver is called to drivers of the same job elsewhere; another pod of this name is its restart. */}}
{{- define "holdfast.driverName" -}}
- {name: HOLDFAST_DRIVER_NAME, value: {{ printf "pod %s-0 in namespace %s" (include "holdfast.driver" .) .Release.Namespace | quote }}}
{{- end }}

{{/* Quoted where it is used: it is a user's text. */}}
{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
{{- define "holdfast.serviceAccount" -}}{{ .Values.serviceAccount.name | default (include "holdfast.driver" .) }}{{- end }}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Of pods: without the chart's version, so that a new chart alone starts no pod anew. */}}
{{- define "holdfast.podLabels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ include "holdfast.name" . }}
{{- end }}

{{/* Labels by which Spark's driver finds its executors' pods. */}}
{{- define "holdfast.sparkLabels" -}}
spark-app-selector: {{ include "holdfast.name" . }}
spark-role: executor
spark-exec-resourceprofile-id: "0"
{{- end }}

{{/* Properties that belong to the chart, with the value that decides each. */}}
{{- define "holdfast.reserved" -}}
application.id: the release's name
bootstrap.servers: kafka.bootstrapServers
executors: executor.replicas
executor.memory.mb: executor.heapMiB
driver.memory.mb: driver.heapMiB
home: fixed, the driver's volume
state.dir: fixed, the executors' volumes
state.remote.password.file: remoteState.existingSecret
spark.master: fixed, this cluster
spark.secret.file: spark.existingSecret
metrics.port: fixed, 8090
functions: functions
serve.query.threads: serve.query.threads
serve.query.memory.bytes: serve.query.processMemoryMiB
{{- end }}

{{- define "holdfast.properties" -}}
{{- $reserved := include "holdfast.reserved" . | fromYaml }}
{{- range $given, $_ := .Values.properties }}
{{- $name := trimPrefix "ksql.streams." $given }}
{{- if hasKey $reserved $name }}
{{- fail (printf "properties: %q is the chart's own; what decides it: %s" $name (get $reserved $name)) }}
{{- end }}
{{- if hasPrefix "kafka." $name }}
{{- fail (printf "properties: %q belongs under kafka.properties as %q" $name (trimPrefix "kafka." $name)) }}
{{- end }}
{{- end }}
{{- /* SET in the statements reaches none of these: Holdfast refuses it, in the preflight as well. */}}
{{- $own := dict
  "application.id" (include "holdfast.name" .)
  "bootstrap.servers" (required "kafka.bootstrapServers is required: the brokers to start from, host:port" .Values.kafka.bootstrapServers)
  "executors" .Values.executor.replicas
  "executor.memory.mb" .Values.executor.heapMiB
  "driver.memory.mb" .Values.driver.heapMiB
  "home" "/var/lib/holdfast"
  "state.dir" "/var/lib/holdfast/state"
  "spark.master" "k8s://https://kubernetes.default.svc"
  "spark.secret.file" "/etc/holdfast/spark/secret"
  "metrics.port" 8090 }}
{{- if .Values.functions }}
{{- $files := list }}
{{- range $name, $_ := .Values.functions }}{{ $files = append $files (printf "/etc/holdfast/functions/%s" $name) }}{{- end }}
{{- $_ := set $own "functions" (join "," $files) }}
{{- end }}
{{- if .Values.serve.enabled }}
{{- $_ := set $own "serve.query.threads" .Values.serve.query.threads }}
{{- $_ := set $own "serve.query.memory.bytes" (mul .Values.serve.query.processMemoryMiB 1048576) }}
{{- end }}
{{- if .Values.remoteState.existingSecret }}
{{- $_ := set $own "state.remote.password.file" "/etc/holdfast/remote/password" }}
{{- end }}
{{- range $name, $value := .Values.kafka.properties }}{{ $_ := set $own (printf "kafka.%s" $name) $value }}{{- end }}
{{- range $name, $_ := .Values.kafka.secretProperties }}{{ $_ := set $own (printf "kafka.%s.file" $name) (printf "/etc/holdfast/secrets/%s" $name) }}{{- end }}
{{- if .Values.kafka.tls.existingSecret }}
{{- $_ := set $own "kafka.ssl.ca.location" "/etc/holdfast/tls/ca.crt" }}
{{- if .Values.kafka.tls.clientCertificate }}
{{- $_ := set $own "kafka.ssl.certificate.location" "/etc/holdfast/tls/tls.crt" }}
{{- $_ := set $own "kafka.ssl.key.location" "/etc/holdfast/tls/tls.key" }}
{{- end }}
{{- end }}
{{- merge $own .Values.properties | toYaml }}
{{- end }}

{{/* "true" if the stores are in a database, and executors need no volumes. */}}
{{- define "holdfast.remoteState" -}}
{{- range $name, $value := .Values.properties }}
{{- if and (eq (trimPrefix "ksql.streams." $name) "state.backend") (eq (lower (toString $value)) "remote") }}true{{ end }}
{{- end }}
{{- end }}

{{/*
What a query server's container may take.  The kernel ends the whole container at its limit, so all that its
processes may take is in it: a process for clients' statements has 64 MiB before its first statement.
*/}}
{{- define "holdfast.serveResources" -}}
{{- $serve := .Values.serve }}
{{- $limits := $serve.resources.limits | default dict }}
{{- if hasKey $limits "memory" }}
{{- fail "serve.resources.limits.memory is computed: set serve.memoryMiB, serve.query.threads or serve.query.processMemoryMiB" }}
{{- end }}
{{- $processes := add (mul 2 $serve.query.threads) 1 }}
{{- $memory := add $serve.memoryMiB (mul $processes (add $serve.query.processMemoryMiB 64)) }}
{{- merge (dict "limits" (merge (dict "memory" (printf "%dMi" $memory)) $limits)) $serve.resources | toYaml }}
{{- end }}

{{/* What the job is made of: the same for the driver's ConfigMap and for the preflight's. */}}
{{- define "holdfast.jobFiles" -}}
job.sql: {{ required "sql is required: the statements of the job (--set-file sql=FILE)" .Values.sql | quote }}
properties.yaml: {{ include "holdfast.properties" . | quote }}
{{- end }}

{{/* Takes a list: access mode, storage class, size. */}}
{{- define "holdfast.claimSpec" -}}
accessModes: [{{ index . 0 }}]
{{- with index . 1 }}
storageClassName: {{ . | quote }}
{{- end }}
resources: {requests: {storage: {{ index . 2 }}}}
{{- end }}

{{/* The claims of the driver, the executors and the query servers; the first two may have none. */}}
{{- define "holdfast.driverClaim" -}}
{{- with .Values.driver.persistence }}
{{- if .enabled }}{{ include "holdfast.claimSpec" (list "ReadWriteOnce" .storageClass .size) }}{{- end }}
{{- end }}
{{- end }}
{{- define "holdfast.executorClaim" -}}
{{- if not (include "holdfast.remoteState" .) }}
{{- with .Values.executor.volume }}{{ include "holdfast.claimSpec" (list .accessMode .storageClass .size) }}{{- end }}
{{- end }}
{{- end }}
{{- define "holdfast.serveClaim" -}}
{{- with .Values.serve.volume }}{{ include "holdfast.claimSpec" (list .accessMode .storageClass .size) }}{{- end }}
{{- end }}

{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Of each secret setting a file, which kafka.<setting>.file names; executors get the values with their work. */}}
{{- define "holdfast.secretMounts" -}}
{{- if .Values.kafka.secretProperties }}
- {name: kafka-secrets, mountPath: /etc/holdfast/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- define "holdfast.secretVolumes" -}}
{{- with .Values.kafka.secretProperties }}
- name: kafka-secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $ref := . }}
      - secret: {name: {{ $ref.name | quote }}, items: [{key: {{ $ref.key | quote }}, path: {{ $name | quote }}}]}
      {{- end }}
{{- end }}
{{- end }}

{{/* Query servers know each other by its key peer-token. */}}
{{- define "holdfast.peerSecret" -}}{{ .Values.serve.auth.existingSecret | default (printf "%s-peers" (include "holdfast.serve" .)) }}{{- end }}

{{/* Driver and executors know each other by it; only they mount it. */}}
{{- define "holdfast.sparkSecretVolume" -}}
- name: spark-secret
  secret: {secretName: {{ include "holdfast.sparkSecret" . | quote }}, items: [{key: secret, path: secret}], defaultMode: 0440}
{{- end }}

{{- define "holdfast.mounts" -}}
- {name: job, mountPath: /etc/holdfast/job, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.functions }}
- {name: functions, mountPath: /etc/holdfast/functions, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.existingSecret }}
- {name: tls, mountPath: /etc/holdfast/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* Takes a list: root context, name of the ConfigMap with the job's files, size limit of the scratch space. */}}
{{- define "holdfast.volumes" -}}
{{- $root := index . 0 }}
- name: job
  configMap: {name: {{ index . 1 }}, items: [{key: job.sql, path: job.sql}, {key: properties.yaml, path: properties.yaml}]}
- name: tmp
  emptyDir: {sizeLimit: {{ index . 2 }}}
{{- if $root.Values.functions }}
- name: functions
  configMap: {name: {{ index . 1 }}-functions}
{{- end }}
{{- with $root.Values.kafka.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{/* Takes a list: the values of the component, its defaults of topology spread and of affinity (may be empty). */}}
{{- define "holdfast.scheduling" -}}
{{- $of := index . 0 }}
{{- with $of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.affinity | default (index . 2) }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.topologySpreadConstraints | default (index . 1) }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
