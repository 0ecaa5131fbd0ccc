/** Prints the JVM options that this Spark needs on this Java: an executor started by us needs them, too. */
class ModuleOptions {
    public static void main(String[] none) {
        System.out.println(org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions());
    }
}
