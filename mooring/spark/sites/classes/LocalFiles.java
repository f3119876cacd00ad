package mooring;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, but without its two helpers: for want of a native library it starts a process to set the
 * mode of a file it has made (chmod), and one to find out whether a name is a link (readlink). Java can do both
 * itself since its seventh version. Everything else is inherited, and so are links and unusual modes.
 */
public class LocalFiles extends RawLocalFileSystem {
  private static final int PLAIN_BITS = 0777;

  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    int mode = permission.toShort();
    if ((mode & ~PLAIN_BITS) != 0) {
      super.setPermission(path, permission);  // sticky: Java has no name for it
      return;
    }
    EnumSet<PosixFilePermission> granted = EnumSet.noneOf(PosixFilePermission.class);
    PosixFilePermission[] fromOwnerReadOn = PosixFilePermission.values();
    for (int bit = 0; bit < fromOwnerReadOn.length; bit++) {
      if ((mode & (0400 >> bit)) != 0) {
        granted.add(fromOwnerReadOn[bit]);
      }
    }
    try {
      Files.setPosixFilePermissions(pathToFile(path).toPath(), granted);
    } catch (UnsupportedOperationException noSuchModes) {
      super.setPermission(path, permission);
    }
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    if (Files.isSymbolicLink(pathToFile(path).toPath())) {
      return super.getFileLinkStatus(path);
    }
    return getFileStatus(path);
  }

  /** The same files behind Hadoop's newer interface, through which Spark keeps the logs of its streams. */
  public static class Context extends DelegateToFileSystem {
    public Context(URI address, Configuration settings) throws IOException, URISyntaxException {
      super(address, new LocalFiles(), settings, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true;  // a local file may have a colon in its name
    }
  }

  /** The same files with a checksum beside each, which Spark's RocksDB store insists on. */
  public static class Checked extends LocalFileSystem {
    public Checked() {
      super(new LocalFiles());
    }
  }
}
