package mooring;

import java.io.File;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadFactory;
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
 * What it writes survives a power cut, in the order in which Spark relies upon it. A rename waits until all that its
 * entry stands for is on the disk: the file's own content, and what was made in the folders beside and below its own.
 * An entry of a sink's log stands for the rows that lie above it, a commit for the offsets, sources and state beside
 * it, and any entry for those in sinks' logs. Names of rows are synced once per batch, however many files they are.
 *
 * Whatever is closed or renamed begins to be synced at once, beside what Spark does next, and whoever relies upon it
 * waits. Where that cannot be known (of offsets, upon which sinks of all kinds rely, and of what is not Spark's own)
 * the rename waits itself. With -Dmooring.durability=fast nothing is synced.
 */
public class LocalFiles extends RawLocalFileSystem {
  private static final int PLAIN_BITS = 0777;
  private static final boolean DURABLE = !"fast".equals(System.getProperty("mooring.durability"));
  private static final String SCRATCH = System.getProperty("java.io.tmpdir") + File.separator;
  private static final String UNDER_WAY = File.separator + "_temporary";
  private static final String SINK_LOG = File.separator + "_spark_metadata";
  private static final int DEEPEST = 4;
  private static final int AT_ONCE = 16;
  private static final AtomicLong synced = new AtomicLong();
  private static final AtomicLong syncedNs = new AtomicLong();
  private static final AtomicLong waitedNs = new AtomicLong();
  /** Folders in which files were made, and when: until a rename vouches for them. */
  private static final ConcurrentHashMap<String, Long> unsynced = new ConcurrentHashMap<String, Long>();
  private static final AtomicLong made = new AtomicLong();
  /** What is being synced, and what could not be: until somebody has relied upon it. */
  private static final ConcurrentHashMap<Sync, Boolean> underWay = new ConcurrentHashMap<Sync, Boolean>();
  private static final ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE, new Daemons());

  /** How often this process has synced a file or a folder, with what is under way. */
  public static long synced() throws InterruptedException {
    Iterator all = underWay.keySet().iterator();
    while (all.hasNext()) {
      try {
        ((Sync) all.next()).task.get();
      } catch (ExecutionException failed) {
        continue;  // stays for whoever relies upon it
      }
    }
    return synced.get();
  }

  /** How long that took altogether, in nanoseconds. */
  public static long syncedNs() {
    return syncedNs.get();
  }

  /** How long anybody has waited for it, in nanoseconds. */
  public static long waitedNs() {
    return waitedNs.get();
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
    return new SyncedAtClose(out, file);
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
    File source = pathToFile(from);
    if (source.isDirectory()) {
      syncTree(source);
    }
    waitFor(reliedUpon(source.getPath(), folder));
    if (!super.rename(from, to)) {
      return false;
    }
    Sync named = new Sync(folder, (Long) unsynced.get(folder.getPath()));
    if (isVouchedFor(folder)) {
      named.begin();
    } else {
      long begun = System.nanoTime();
      named.call();
      waitedNs.addAndGet(System.nanoTime() - begun);
    }
    return true;
  }

  /** Nothing goes before the names last that came into its folder earlier: a compacted log stands for older ones. */
  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    File file = pathToFile(path);
    Iterator all = underWay.keySet().iterator();
    while (all.hasNext()) {
      Sync each = (Sync) all.next();
      if (each.file.equals(file.getParentFile())) {
        each.await();
      }
    }
    return super.delete(path, recursive);
  }

  /** Whether a later rename by Spark stands for this folder, and waits for it. */
  private static boolean isVouchedFor(File folder) {
    if (folder.getPath().endsWith(SINK_LOG)) {
      return true;
    }
    File part = folder;  // checkpoint/commits, checkpoint/sources/0, checkpoint/state/0/0, and stores below that
    for (int depth = 0; depth < DEEPEST && part.getParentFile() != null; depth++, part = part.getParentFile()) {
      String name = part.getName();
      if ((depth == 0 ? name.equals("commits") : name.equals("sources") || name.equals("state"))
          && new File(part.getParentFile(), "offsets").isDirectory()) {
        return true;
      }
    }
    return false;
  }

  /** What has to be on the disk before a file gets its name in a folder. Folders that only have new names begin now. */
  private static ArrayList<Sync> reliedUpon(String source, File folder) throws IOException {
    File above = folder.getParentFile();
    String start = (above == null ? folder : above).getPath() + File.separator;
    Iterator entries = unsynced.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      String noted = (String) entry.getKey();
      if ((noted + File.separator).startsWith(start) && !noted.equals(folder.getPath())) {
        new Sync(new File(noted), (Long) entry.getValue()).begin();
      }
    }
    ArrayList<Sync> found = new ArrayList<Sync>();
    Iterator all = underWay.keySet().iterator();
    while (all.hasNext()) {
      Sync each = (Sync) all.next();
      String path = each.file.getPath();
      if (path.equals(source) || (path + File.separator).startsWith(start) || path.endsWith(SINK_LOG)) {
        found.add(each);
      }
    }
    return found;
  }

  private static void waitFor(ArrayList<Sync> syncs) throws IOException {
    long begun = System.nanoTime();
    for (int k = 0; k < syncs.size(); k++) {
      Sync each = (Sync) syncs.get(k);
      try {
        each.await();
      } catch (InterruptedIOException stopped) {
        throw stopped;
      } catch (IOException failed) {
        underWay.remove(each);  // told to the one who relied upon it, whose work fails by it
        throw failed;
      }
    }
    waitedNs.addAndGet(System.nanoTime() - begun);
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

  /** Syncs a file or a folder, now or beside what its caller does next. */
  private static class Sync implements Callable<Object> {
    final File file;
    private final Long noted;
    private final FutureTask<Object> task = new FutureTask<Object>(this);

    /** `noted`: when names in this folder were noted, which it makes good unless there are newer ones by then. */
    Sync(File file, Long noted) {
      this.file = file;
      this.noted = noted;
    }

    public Object call() throws IOException {
      sync(file);
      if (noted != null) {
        unsynced.remove(file.getPath(), noted);
      }
      underWay.remove(this);  // one that failed stays, for whoever relies upon it
      return null;
    }

    void begin() {
      underWay.put(this, Boolean.TRUE);
      threads.execute(task);
    }

    void await() throws IOException {
      try {
        task.get();
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("stopped while " + file + " was synced");
      } catch (ExecutionException failure) {
        throw new IOException("cannot sync " + file + ": " + failure.getCause().getMessage(), failure.getCause());
      }
    }
  }

  /** Threads that keep no process alive. */
  private static class Daemons implements ThreadFactory {
    public Thread newThread(Runnable work) {
      Thread thread = new Thread(work, "mooring-sync");
      thread.setDaemon(true);
      return thread;
    }
  }

  private static class SyncedAtClose extends OutputStream implements Syncable, StreamCapabilities {
    private final OutputStream out;
    private final File file;
    private boolean closed = false;

    SyncedAtClose(OutputStream out, File file) {
      this.out = out;
      this.file = file;
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
      out.close();
      new Sync(file, null).begin();
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
