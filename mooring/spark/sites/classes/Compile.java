package mooring;

import java.io.File;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.util.Iterator;
import java.util.Map;

import org.codehaus.janino.SimpleCompiler;

/** Compiles one source (FOLDER SOURCE) with the compiler that Spark has for its own queries, which also runs this. */
public class Compile {
  public static void main(String[] arguments) throws Exception {
    SimpleCompiler compiler = new SimpleCompiler();
    compiler.setParentClassLoader(Thread.currentThread().getContextClassLoader());
    compiler.cook(arguments[1], new FileInputStream(arguments[1]));
    Iterator entries = compiler.getBytecodes().entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      File file = new File(arguments[0], ((String) entry.getKey()).replace('.', '/') + ".class");
      file.getParentFile().mkdirs();
      Files.write(file.toPath(), (byte[]) entry.getValue());
    }
  }
}
