#!/bin/sh
# Download Apicurio Registry from Maven Central, hold it to its checksum, and unpack it.
#   fetch.sh FOLDER
# Version and checksum have one home, jobs/holdfast/config/versions.py, which lies beside this script.
set -eu
here=$(dirname "$0")
folder=$1

of() { sed -n "s/^$1 = \"\([^\"]*\)\".*/\1/p" "$here/versions.py"; }

version=$(of REGISTRY_VERSION)
cat > "$here/ivy.xml" <<END
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="holdfast" module="schema-registry-image"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="$version" transitive="false" conf="default->default">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
END
# The parents of its POM import dozens of others, which nothing here needs.
cat > "$here/ivysettings.xml" <<END
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
END
java -cp /usr/share/java/ivy.jar org.apache.ivy.Main -warn -settings "$here/ivysettings.xml" -ivy "$here/ivy.xml" \
  -cache "$here/ivy" -types tar.gz -retrieve "$here/[artifact]-[revision].[ext]"
archive=$here/apicurio-registry-app-$version.tar.gz
if ! echo "$(of REGISTRY_SHA256)  $archive" | sha256sum --quiet -c -; then
  echo "Apicurio Registry $version is not the one of jobs/holdfast/config/versions.py:" >&2
  sha256sum "$archive" >&2
  exit 1
fi
mkdir -p "$folder"
tar -xzf "$archive" -C "$folder" --no-same-owner
rm -rf "$here/ivy" "$archive" "$folder/meta"
mv "$folder/apicurio-registry-app-$version-runner.jar" "$folder/registry.jar"
