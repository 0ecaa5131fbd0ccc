{{/* What every Airflow component has in its environment; takes the root context. */}}
{{- define "airflow.env" -}}
- {name: AIRFLOW_HOME, value: /var/lib/airflow}
- {name: POSTGRESQL_PASSWORD, valueFrom: {secretKeyRef: {name: holdfast-platform, key: postgresql-password}}}
- {name: AIRFLOW__DATABASE__SQL_ALCHEMY_CONN, value: "postgresql+psycopg2://airflow:$(POSTGRESQL_PASSWORD)@postgresql:5432/airflow"}
- {name: AIRFLOW__CORE__FERNET_KEY, valueFrom: {secretKeyRef: {name: holdfast-platform, key: fernet-key}}}
- {name: AIRFLOW__API_AUTH__JWT_SECRET, valueFrom: {secretKeyRef: {name: holdfast-platform, key: jwt-secret}}}
- {name: AIRFLOW__API__SECRET_KEY, valueFrom: {secretKeyRef: {name: holdfast-platform, key: api-secret-key}}}
- {name: HOLDFAST_IMAGE, value: {{ include "platform.image" (list . .Values.jobs.image) | quote }}}
- {name: HOLDFAST_NAMESPACE, value: {{ .Values.jobs.namespace | quote }}}
- {name: HOLDFAST_BOOTSTRAP_SERVERS, value: {{ include "platform.bootstrapServers" . | quote }}}
{{- if .Values.schemaRegistry.enabled }}
- {name: HOLDFAST_SCHEMA_REGISTRY_URL, value: {{ include "platform.schemaRegistry" . | quote }}}
{{- end }}
{{- with .Values.chaos.daily.job }}
- {name: HOLDFAST_CHAOS_JOB, value: {{ . | quote }}}
- {name: HOLDFAST_CHAOS_CONFIRM, value: {{ $.Values.chaos.daily.confirm | quote }}}
{{- with $.Values.chaos.daily.params }}
- {name: HOLDFAST_CHAOS_PARAMS, value: {{ toJson . | quote }}}
{{- end }}
{{- end }}
- {name: HOLDFAST_COMPACTION_SCHEDULE, value: {{ ternary .Values.compaction.schedule "" .Values.compaction.enabled | quote }}}
{{- with .Values.compaction.params }}
- {name: HOLDFAST_COMPACTION_PARAMS, value: {{ toJson . | quote }}}
{{- end }}
{{- if .Values.fleet.configMap }}
- {name: HOLDFAST_FLEET, value: /etc/holdfast/fleet}
- {name: HOLDFAST_FLEET_NAMESPACES, value: {{ include "platform.namespaces" . | fromJsonArray | join "," | quote }}}
- {name: HOLDFAST_FLEET_SCHEDULE, value: {{ .Values.fleet.schedule | quote }}}
- {name: HOLDFAST_SQL_FOLDER, value: /etc/holdfast/fleet}
{{- end }}
{{- if .Values.compaction.strimzi.enabled }}
- {name: HOLDFAST_STRIMZI_NAMESPACE, value: {{ .Values.compaction.strimzi.namespace | quote }}}
{{- end }}
- name: AIRFLOW_CONN_KUBERNETES_DEFAULT
  value: {{ dict "conn_type" "kubernetes" "extra" (dict
      "in_cluster" true
      "namespace" .Values.jobs.namespace
      "xcom_sidecar_container_image" (include "platform.image" (list . .Values.jobs.image))) | toJson | quote }}
{{- /* Tasks of a scheduler that was killed are looked for every half minute, not every five. */}}
{{- $settings := dict
  "AIRFLOW__API__WORKERS" "1"
  "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION" "False"
  "AIRFLOW__CORE__EXECUTION_API_SERVER_URL" "http://airflow-api-server:8080/execution/"
  "AIRFLOW__CORE__EXECUTOR" "LocalExecutor"
  "AIRFLOW__CORE__LOAD_EXAMPLES" "False"
  "AIRFLOW__CORE__PARALLELISM" (.Values.airflow.parallelism | toString)
  "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE" "/var/lib/airflow/passwords.json"
  "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS" (printf "%s:admin" .Values.airflow.user)
  "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL" "300"
  "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES" "1"
  "AIRFLOW__LOGGING__BASE_LOG_FOLDER" "/var/lib/airflow/logs"
  "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK" "True"
  "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL" "30" }}
{{- range $name, $value := merge (dict) .Values.airflow.config $settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/*
The pod of an Airflow component.  Takes a list: root context, component, and a dict of
  values (of the component), database (what the init container runs once the database is there), args,
  probes, and optionally env, ports, token (may talk to Kubernetes), logs (its claim `logs` is mounted),
  victim (chaos may break it).
*/}}
{{- define "airflow.pod" -}}
{{- $root := index . 0 }}{{- $component := index . 1 }}{{- $of := index . 2 -}}
metadata:
  labels: {{- include "platform.labels" (list $root (printf "airflow-%s" $component)) | nindent 4 }}
    {{- if and $of.victim $root.Values.chaos.enabled }}
    holdfast/chaos-target: {{ $component }}
    {{- end }}
  annotations:
    checksum/probes: {{ $root.Files.Get "files/heartbeat.py" | sha256sum }}
    {{- include "platform.annotations" $root.Values.airflow | nindent 4 }}
spec:
  serviceAccountName: airflow
  automountServiceAccountToken: {{ $of.token | default false }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext: {{- include "platform.podSecurity" 10001 | nindent 4 }}
  {{- include "platform.pullSecrets" $root | nindent 2 }}
  {{- include "platform.scheduling" $root.Values.airflow | nindent 2 }}
  initContainers:
    - name: database
      image: {{ include "platform.image" (list $root $root.Values.airflow.image) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      # Bash waits for the database at no cost; an attempt of Airflow costs seconds of processor time.
      args: [bash, -c, "until (: > /dev/tcp/postgresql/5432) 2>/dev/null; do sleep 1; done; exec {{ $of.database }}"]
      securityContext: {{- include "platform.containerSecurity" $root | nindent 8 }}
      env: {{- include "airflow.env" $root | nindent 8 }}
      resources: {{- toYaml $of.values.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/airflow}
        - {name: tmp, mountPath: /tmp}
  containers:
    - name: {{ $component }}
      image: {{ include "platform.image" (list $root $root.Values.airflow.image) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ $of.args | toJson }}
      securityContext: {{- include "platform.containerSecurity" $root | nindent 8 }}
      env: {{- include "airflow.env" $root | nindent 8 }}
      {{- with $of.env }}
      {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $of.ports }}
      ports: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- toYaml $of.probes | nindent 6 }}
      resources: {{- toYaml $of.values.resources | nindent 8 }}
      volumeMounts:
        - {name: home, mountPath: /var/lib/airflow}
        - {name: tmp, mountPath: /tmp}
        - {name: probes, mountPath: /etc/airflow/probes, readOnly: true}
        {{- if $root.Values.fleet.configMap }}
        - {name: fleet, mountPath: /etc/holdfast/fleet, readOnly: true}
        {{- end }}
        {{- if $of.logs }}
        - {name: logs, mountPath: /var/lib/airflow/logs}
        {{- end }}
  volumes:
    - name: home
      emptyDir: {sizeLimit: 1Gi}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    - name: probes
      configMap: {name: airflow-probes}
    {{- with $root.Values.fleet.configMap }}
    # Without it Airflow starts all the same, and `deploy_fleet` says that it is missing.
    - name: fleet
      configMap: {name: {{ . | quote }}, optional: true}
    {{- end }}
{{- end }}

{{/* Probes that run heartbeat.py; takes the job's type. */}}
{{- define "airflow.heartbeat" -}}
{{- $command := list "python" "/etc/airflow/probes/heartbeat.py" . -}}
startupProbe:
  exec: {command: {{ $command | toJson }}}
  periodSeconds: 5
  timeoutSeconds: 15
  failureThreshold: 60
readinessProbe:
  exec: {command: {{ $command | toJson }}}
  periodSeconds: 60
  timeoutSeconds: 15
livenessProbe:
  exec: {command: {{ $command | toJson }}}
  periodSeconds: 60
  timeoutSeconds: 15
  failureThreshold: 3
{{- end }}
