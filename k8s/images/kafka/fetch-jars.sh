#!/bin/sh
# Resolve the broker's jars from Maven Central and hold them to their checksums.
#   fetch-jars.sh FOLDER
# The versions have one home, jobs/holdfast/config/versions.py, and the checksums jar_sums.py beside it; both lie
# beside this script.
set -eu
here=$(dirname "$0")
folder=$1

version() { sed -n "s/^$1 = \"\([^\"]*\)\".*/\1/p" "$here/versions.py"; }

cat > "$here/ivy.xml" <<END
<ivy-module version="2.0">
  <info organisation="holdfast" module="kafka-image"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_$(version SCALA_VERSION)" rev="$(version KAFKA_VERSION)" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="$(version LOG4J_VERSION)" conf="default->default"/>
  </dependencies>
</ivy-module>
END
cat > "$here/ivysettings.xml" <<END
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
END
java -cp /usr/share/java/ivy.jar org.apache.ivy.Main -warn -settings "$here/ivysettings.xml" -ivy "$here/ivy.xml" \
  -cache "$here/ivy" -types jar bundle -retrieve "$folder/[artifact]-[revision].[ext]"
rm -rf "$here/ivy"
cd "$folder"
sed -n '/^[0-9a-f]\{64\}  /p' "$here/jar_sums.py" > "$here/jars.sha256"
if ! sha256sum --quiet -c "$here/jars.sha256" || [ "$(ls | wc -l)" != "$(wc -l < "$here/jars.sha256")" ]; then
  echo "The jars are not those of jobs/holdfast/config/jar_sums.py. After a change of versions.py write it anew:" >&2
  sha256sum *.jar >&2
  exit 1
fi
