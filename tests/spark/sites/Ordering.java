package mooring;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.FutureTask;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * While all threads that sync are held, whoever relies upon something that is not on the disk yet must wait. Takes a
 * folder; prints a line for each thing that was tried, as test_local_files.py expects them.
 */
public class Ordering {
  private static final int THREADS = 16;
  private static FileSystem files;
  private static String root;

  public static void main(String[] arguments) throws Exception {
    root = arguments[0];
    files = new LocalFiles();
    files.initialize(new File("/").toURI(), new Configuration());
    String[] folders = {"table/_spark_metadata", "checkpoint/offsets", "checkpoint/commits", "checkpoint/sources/0",
        "checkpoint/state/0/1"};
    for (int k = 0; k < folders.length; k++) {
      files.mkdirs(new Path(root, folders[k]));
    }

    Held held = new Held();
    write("other/.0.tmp");
    tell("a name waits for its own content", held.waits(new Move("other/.0.tmp", "other/0")));

    held = new Held();
    write("table/part-0");
    tell("an entry of a sink's log waits for the rows", held.waits(new Move(settled("table/_spark_metadata/.0.tmp"),
        "table/_spark_metadata/0")));

    held = new Held();
    move("table/_spark_metadata/.1.tmp", "table/_spark_metadata/1");
    tell("a commit waits for the sink's log", held.waits(new Move(settled("checkpoint/commits/.0.tmp"),
        "checkpoint/commits/0")));

    held = new Held();
    move("checkpoint/state/0/1/.1.tmp", "checkpoint/state/0/1/1.delta");
    tell("a commit waits for state", held.waits(new Move(settled("checkpoint/commits/.1.tmp"),
        "checkpoint/commits/1")));

    held = new Held();
    move("checkpoint/sources/0/.1.tmp", "checkpoint/sources/0/1");
    tell("offsets wait for their sources", held.waits(new Move(settled("checkpoint/offsets/.1.tmp"),
        "checkpoint/offsets/1")));

    held = new Held();
    move("table/_spark_metadata/.9.tmp", "table/_spark_metadata/9.compact");
    tell("an old log stays until the compacted one lasts", held.waits(new Delete("table/_spark_metadata/0")));

    held = new Held();
    write("table/part-1");
    Files.delete(Paths.get(root, "table/part-1"));
    Files.createSymbolicLink(Paths.get(root, "table/part-1"), Paths.get("part-1"));
    FutureTask<Object> entry = new FutureTask<Object>(new Move(settled("table/_spark_metadata/.2.tmp"),
        "table/_spark_metadata/2"));
    new Thread(entry).start();
    held.letGo();
    try {
      entry.get();
      tell("rows that cannot be synced fail the entry", false);
    } catch (ExecutionException failure) {
      boolean isOurs = failure.getCause().getMessage().startsWith("cannot sync " + root + "/table/part-1");
      tell("rows that cannot be synced fail the entry",
          isOurs && !new File(root, "table/_spark_metadata/2").exists());
    }
  }

  private static void tell(String what, boolean isSo) {
    System.out.println((isSo ? "yes: " : "NO: ") + what);
  }

  private static void write(String name) throws IOException {
    java.io.OutputStream out = files.create(new Path(root, name));
    out.write(1);
    out.close();
  }

  /** A file that was on the disk before anything was held. */
  private static String settled(String name) throws IOException {
    Files.write(Paths.get(root, name), new byte[] {1});
    return name;
  }

  /** Its own content is there already, so only its name is still to be synced. */
  private static void move(String from, String to) throws Exception {
    new Move(settled(from), to).call();
  }

  private static class Move implements Callable<Object> {
    private final Path from;
    private final Path to;

    Move(String from, String to) {
      this.from = new Path(root, from);
      this.to = new Path(root, to);
    }

    public Object call() throws IOException {
      files.rename(from, to);
      return to;
    }

    boolean isDone() {
      return new File(to.toUri().getPath()).exists();
    }
  }

  private static class Delete extends Move {
    private final String name;

    Delete(String name) {
      super(name, name);
      this.name = name;
    }

    public Object call() throws IOException {
      files.delete(new Path(root, name), false);
      return name;
    }

    boolean isDone() {
      return !new File(root, name).exists();
    }
  }

  /** All threads that sync, busy until they are let go. */
  private static class Held implements Runnable {
    private final CountDownLatch over = new CountDownLatch(1);
    private final CountDownLatch busy = new CountDownLatch(THREADS);

    Held() throws Exception {
      Field threads = LocalFiles.class.getDeclaredField("threads");
      threads.setAccessible(true);
      for (int k = 0; k < THREADS; k++) {
        ((ExecutorService) threads.get(null)).execute(this);
      }
      busy.await();
    }

    public void run() {
      busy.countDown();
      try {
        over.await();
      } catch (InterruptedException ended) {
        return;
      }
    }

    void letGo() {
      over.countDown();
    }

    /** Whether it waits for a thread, without having done anything, and is done once there is one. */
    boolean waits(Move step) throws Exception {
      FutureTask<Object> task = new FutureTask<Object>(step);
      Thread thread = new Thread(task);
      thread.start();
      while (thread.getState() != Thread.State.WAITING && thread.getState() != Thread.State.TERMINATED) {
        Thread.yield();
      }
      boolean early = step.isDone();
      letGo();
      task.get();
      return !early && step.isDone();
    }
  }
}
