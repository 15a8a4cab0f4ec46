package dev.lockstep;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * HTTP/1.1 over a Unix socket, as far as a worker speaks it: one call at a time on one connection,
 * answers with a Content-Length. (java.net.http has no Unix sockets.)
 */
final class UnixHttp implements AutoCloseable {
    private static final int LONGEST_LINE = 16 * 1024;

    /** Closes channels of calls that take too long; a blocked read then ends with an exception. */
    private static final ScheduledExecutorService WATCH = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "lockstep-timeouts");
        thread.setDaemon(true);
        return thread;
    });

    private final Path socket;
    private SocketChannel channel;
    private InputStream input;

    UnixHttp(Path socket) {
        this.socket = socket;
    }

    /** An answer. */
    record Response(int status, Map<String, String> headers, byte[] body) {}

    /** One exchange. After an exception the connection is closed; the next call makes a new one. */
    Response call(String method, String path, Map<String, String> headers, byte[] body, Duration within)
            throws IOException {
        SocketChannel used = connection();
        var late = WATCH.schedule(() -> closeQuietly(used), within.toMillis(), TimeUnit.MILLISECONDS);
        try {
            write(method, path, headers, body);
            Response response = read();
            if ("close".equalsIgnoreCase(response.headers.get("connection"))) {
                close();
            }
            return response;
        } catch (IOException | RuntimeException error) {
            close();
            throw error;
        } finally {
            late.cancel(false);
        }
    }

    @Override
    public void close() {
        if (channel != null) {
            closeQuietly(channel);
            channel = null;
        }
    }

    private SocketChannel connection() throws IOException {
        if (channel == null || !channel.isOpen()) {
            channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
            input = new java.io.BufferedInputStream(Channels.newInputStream(channel), 64 * 1024);
        }
        return channel;
    }

    private void write(String method, String path, Map<String, String> headers, byte[] body) throws IOException {
        StringBuilder head = new StringBuilder(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n");
        headers.forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        head.append("Content-Length: ").append(body.length).append("\r\n\r\n");
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        whole.writeBytes(head.toString().getBytes(StandardCharsets.US_ASCII));
        whole.writeBytes(body);
        ByteBuffer buffer = ByteBuffer.wrap(whole.toByteArray());
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
    }

    private Response read() throws IOException {
        String[] status = line().split(" ", 3);
        if (status.length < 2 || !status[0].startsWith("HTTP/1.")) {
            throw new IOException("the answer is not HTTP/1");
        }
        Map<String, String> headers = new TreeMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                headers.put(line.substring(0, colon).toLowerCase(Locale.ROOT), line.substring(colon + 1).strip());
            }
        }
        String length = headers.get("content-length");
        if (length == null) {
            throw new IOException("the answer has no Content-Length");
        }
        byte[] body = input.readNBytes(Integer.parseInt(length));
        if (body.length < Integer.parseInt(length)) {
            throw new EOFException("the worker closed the connection within an answer");
        }
        return new Response(Integer.parseInt(status[1]), headers, body);
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = input.read(); next != '\n'; next = input.read()) {
            if (next < 0) {
                throw new EOFException("the worker closed the connection");
            }
            if (line.length() >= LONGEST_LINE) {
                throw new IOException("a line of the answer is too long");
            }
            line.append((char) next);
        }
        return line.toString().stripTrailing();
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException gone) {
            // It is of no use any more, closed well or not.
        }
    }
}
