package mooring;

import org.apache.ivy.core.settings.IvySettings;
import org.apache.spark.util.MavenUtils;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Prints the jars of some packages, one a line (PACKAGES REPOSITORIES EXCLUDES FOLDER SETTINGS; empty: none).
 * What `spark-submit --packages` does, by the same code.
 */
public class ResolvePackages {
  public static void main(String[] arguments) throws Exception {
    Option repositories = given(arguments[1]);
    Option folder = given(arguments[3]);
    IvySettings settings = arguments[4].isEmpty()
        ? MavenUtils.buildIvySettings(repositories, folder, true, System.err)
        : MavenUtils.loadIvySettings(arguments[4], repositories, folder, System.err);
    Seq excludes = MavenUtils.resolveMavenCoordinates$default$5();
    if (!arguments[2].isEmpty()) {
      String[] each = arguments[2].split(",");
      for (int i = 0; i < each.length; i++) {
        excludes = (Seq) excludes.appended(each[i].trim());
      }
    }
    Seq jars = MavenUtils.resolveMavenCoordinates(
        arguments[0], settings, Option.empty(), true, excludes, false, System.err);
    for (int i = 0; i < jars.size(); i++) {
      System.out.println(jars.apply(i));
    }
  }

  private static Option given(String text) {
    return Option.apply(text.isEmpty() ? null : text);
  }
}
