{{/*
Metadata of what the init Job creates and no release owns.  Without the label `app.kubernetes.io/instance`, by
which Argo CD would take it for a part of its application that is in no manifest, and prune it.  Takes a list:
name, namespace, component.
*/}}
{{- define "platform.kept" -}}
name: {{ index . 0 }}
namespace: {{ index . 1 }}
labels:
  app.kubernetes.io/name: {{ index . 2 }}
  app.kubernetes.io/part-of: holdfast-platform
{{- end }}

{{/* Takes a list: name, namespace, component, type. */}}
{{- define "platform.emptySecret" -}}
apiVersion: v1
kind: Secret
type: {{ index . 3 }}
metadata: {{- include "platform.kept" . | nindent 2 }}
{{- end }}

{{/* The claim of a namespace of jobs that keeps the files of a DAG's runs.  Takes a list: name, {size, storageClass}, namespace. */}}
{{- define "platform.runs" -}}
{{- $name := index . 0 }}
{{- $kept := include "platform.kept" (list $name (index . 2) $name) | fromYaml }}
{{- merge (include "platform.claim" . | fromYaml) (dict "metadata" $kept) | toYaml }}
{{- end }}

{{/*
What the init Job creates where it is missing: random texts, certificates, and claims, which a `helm --wait` would
wait for, although the first run binds them.  Empty: nothing.  Takes the root context.
*/}}
{{- define "platform.wanted" -}}
{{- $here := .Release.Namespace }}{{- $namespaces := include "platform.namespaces" . | fromJsonArray }}
{{- $claims := list }}
{{- if .Values.airflow.enabled }}
passwords:
  - keys: [postgresql-password, airflow-password, jwt-secret, api-secret-key, fernet-key]
    object: {{- include "platform.emptySecret" (list "holdfast-platform" $here "holdfast-platform" "Opaque") | nindent 6 }}
{{- range $of := list "chaos" "compaction" }}
{{- $values := get $.Values $of }}
{{- range ternary $namespaces (list) $values.enabled }}
{{- $claims = append $claims (include "platform.runs" (list (printf "holdfast-%s" $of) $values.volume .) | fromYaml) }}
{{- end }}
{{- end }}
{{- with $claims }}
claims: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if and .Values.kafka.enabled .Values.kafka.tls.enabled }}
{{- $names := list "localhost" }}
{{- range $host := list "kafka" "kafka-0" "kafka-1" "kafka-2" }}
{{- $in := printf "%s.%s" $host $here }}
{{- $names = concat $names (list $host $in (printf "%s.svc" $in) (printf "%s.svc.cluster.local" $in)) }}
{{- end }}
certificates:
  authority: holdfast-platform
  days: 3650
  of:
    - commonName: kafka
      hosts: {{ $names | toJson }}
      object: {{- include "platform.emptySecret" (list "kafka-tls" $here "kafka" "kubernetes.io/tls") | nindent 8 }}
    # What jobs and tasks connect with: `kafka.tls.existingSecret` of the chart holdfast.
    {{- range $namespaces }}
    - commonName: holdfast
      hosts: []
      object: {{- include "platform.emptySecret" (list "holdfast-kafka-client" . "kafka" "kubernetes.io/tls") | nindent 8 }}
    {{- end }}
{{- end }}
{{- end }}

{{/* A hook that goes with the Job, whatever becomes of it.  Takes its weight. */}}
{{- define "platform.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}
