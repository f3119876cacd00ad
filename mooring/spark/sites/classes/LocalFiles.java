package mooring;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, but without its two helpers: for want of a native library it starts a process to set the
 * mode of a file it has made (chmod), and one to find out whether a name is a link (readlink). Java can do both
 * itself since its seventh version. Everything else is inherited, and so are links and unusual modes.
 *
 * What it writes survives a power cut, in the order in which Spark relies upon it. A file's content is synced when
 * it is closed, so before it gets its final name. A rename syncs the folder. It first syncs the folders beside and
 * below that one in which files were made since: an entry of a sink's log stands for the rows that lie above it, a
 * commit for the offsets, sources and state beside it. So a batch syncs the folder of its rows once, however many
 * files it writes. With -Dmooring.durability=fast nothing is synced.
 */
public class LocalFiles extends RawLocalFileSystem {
  private static final int PLAIN_BITS = 0777;
  private static final boolean DURABLE = !"fast".equals(System.getProperty("mooring.durability"));
  private static final String SCRATCH = System.getProperty("java.io.tmpdir") + File.separator;
  private static final String UNDER_WAY = File.separator + "_temporary";
  private static final AtomicLong synced = new AtomicLong();
  private static final AtomicLong syncedNs = new AtomicLong();
  /** Folders in which files were made, and when: until a rename vouches for them. */
  private static final ConcurrentHashMap<String, Long> unsynced = new ConcurrentHashMap<String, Long>();
  private static final AtomicLong made = new AtomicLong();

  /** How often this process has synced a file or a folder. */
  public static long synced() {
    return synced.get();
  }

  /** How long that took altogether, in nanoseconds. */
  public static long syncedNs() {
    return syncedNs.get();
  }

  @Override
  protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission)
      throws IOException {
    File file = pathToFile(path);
    OutputStream out = super.createOutputStreamWithMode(path, append, permission);
    if (!outlasts(file)) {
      return out;
    }
    note(file.getParentFile());
    return new SyncedAtClose(out);
  }

  @Override
  protected boolean mkOneDirWithMode(Path path, File folder, FsPermission permission) throws IOException {
    boolean isNew = super.mkOneDirWithMode(path, folder, permission);
    if (isNew && outlasts(folder)) {
      sync(folder.getAbsoluteFile().getParentFile());
    }
    return isNew;
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    File target = pathToFile(to);
    if (!outlasts(target)) {
      return super.rename(from, to);
    }
    File folder = target.getAbsoluteFile().getParentFile();
    if (folder.getParentFile() != null) {
      syncBelow(folder.getParentFile(), folder.getPath());
    }
    File source = pathToFile(from);
    if (source.isDirectory()) {
      syncTree(source);
    }
    if (!super.rename(from, to)) {
      return false;
    }
    syncNoted(folder.getPath(), unsynced.get(folder.getPath()));
    return true;
  }

  /** Whether anybody needs the file after a power cut: not a site's own, nor what a batch job has not finished. */
  private static boolean outlasts(File file) {
    String path = file.getPath();
    return DURABLE && !path.startsWith(SCRATCH) && !path.contains(UNDER_WAY + File.separator)
        && !path.endsWith(UNDER_WAY);
  }

  private static void note(File folder) {
    unsynced.put(folder.getPath(), Long.valueOf(made.incrementAndGet()));
  }

  /** Folders in and below `above`, but for one that the caller syncs. */
  private static void syncBelow(File above, String but) throws IOException {
    String start = above.getPath() + File.separator;
    Iterator entries = unsynced.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      String folder = (String) entry.getKey();
      if ((folder + File.separator).startsWith(start) && !folder.equals(but)) {
        syncNoted(folder, entry.getValue());
      }
    }
  }

  /** It stays noted until it is synced, for whoever looks meanwhile, and if files are made there meanwhile. */
  private static void syncNoted(String folder, Object noted) throws IOException {
    sync(new File(folder));
    if (noted != null) {
      unsynced.remove(folder, noted);
    }
  }

  private static void syncTree(File folder) throws IOException {
    File[] entries = folder.listFiles();
    for (int k = 0; entries != null && k < entries.length; k++) {
      if (entries[k].isDirectory()) {
        syncTree(entries[k]);
      }
    }
    sync(folder);
  }

  private static void sync(File folder) throws IOException {
    long begun = System.nanoTime();
    FileChannel opened;
    try {
      opened = FileChannel.open(folder.toPath(), new OpenOption[] {StandardOpenOption.READ});
    } catch (NoSuchFileException gone) {
      return;  // with all that was made there
    }
    try {
      opened.force(true);
    } catch (IOException failure) {
      if (!isRefusal(failure)) {
        throw failure;
      }
    } finally {
      opened.close();
    }
    count(begun);
  }

  /** Some network file systems do not sync folders; a name is then as safe as they make it. */
  private static boolean isRefusal(IOException failure) {
    String said = String.valueOf(failure.getMessage());
    return said.contains("Invalid argument") || said.contains("not supported");
  }

  private static void count(long begun) {
    synced.incrementAndGet();
    syncedNs.addAndGet(System.nanoTime() - begun);
  }

  private static class SyncedAtClose extends OutputStream implements Syncable, StreamCapabilities {
    private final OutputStream out;
    private boolean closed = false;

    SyncedAtClose(OutputStream out) {
      this.out = out;
    }

    @Override
    public void write(int oneByte) throws IOException {
      out.write(oneByte);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void hflush() throws IOException {
      ((Syncable) out).hflush();
    }

    @Override
    public void hsync() throws IOException {
      long begun = System.nanoTime();
      ((Syncable) out).hsync();
      count(begun);
    }

    @Override
    public boolean hasCapability(String name) {
      return ((StreamCapabilities) out).hasCapability(name);
    }

    @Override
    public void close() throws IOException {
      if (closed) {
        return;
      }
      closed = true;
      try {
        hsync();
      } finally {
        out.close();
      }
    }
  }

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
