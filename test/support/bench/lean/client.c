// SPDX-License-Identifier: Apache-2.0
//
// client loads a proxy: one request a connection, as Let's Encrypt's validators send it,
// each with a new token. Usage: client ADDRESS PORT CONNECTIONS MILLISECONDS SEED. It
// prints one figure a line. Clients, proxy and upstream share the cores, so it makes as few
// system calls as possible: socket, connect, send, epoll_ctl, recv and close. On the veth
// pair of a lab the handshake mostly ends within connect, and send succeeds at once.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	max_threads = 2,
	token_digits = 13,
	timeout_us = 10 * 1000 * 1000,
	check_us = 100 * 1000, // how often the end and timeouts are checked without events
};

static const char tail[] =
	" HTTP/1.1\r\nHost: api.lab.test\r\n"
	"User-Agent: Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)\r\n"
	"Accept: */*\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";

struct connection {
	int fd; // -1 if it could not be opened
	int sent;
	int64_t opened; // for the timeout
	int64_t start;  // of the request
	size_t received;
	char answer[4096];
};

struct thread {
	pthread_t id;
	int connections;
	int epoll;
	uint64_t tokens;
	size_t head; // length of the request in front of the token's digits
	size_t length;
	char request[1024];
	struct connection *all;

	uint32_t *latencies; // in µs
	size_t requests, room;
	long connect_errors, read_errors, status_errors, timeouts;
};

static struct sockaddr_in server;
static int64_t end;

static int64_t now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void fail(const char *act) {
	fprintf(stderr, "client: cannot %s: %s\n", act, strerror(errno));
	exit(1);
}

static void drop(struct connection *c) {
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

// send_request writes the request with a new token. A request that does not fit into an
// empty socket buffer is an error.
static int send_request(struct thread *t, struct connection *c) {
	char digits[token_digits + 1];
	snprintf(digits, sizeof digits, "%0*llu", token_digits, (unsigned long long)++t->tokens);
	memcpy(t->request + t->head, digits, token_digits);
	c->start = now_us();
	ssize_t n = send(c->fd, t->request, t->length, MSG_NOSIGNAL);
	if (n < 0 && errno == EAGAIN)
		return 0; // still connecting
	if (n != (ssize_t)t->length)
		return -1;
	c->sent = 1;
	return 0;
}

static void open_connection(struct thread *t, struct connection *c) {
	c->received = 0;
	c->sent = 0;
	c->opened = now_us();
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		fail("create a socket");
	if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0 && errno != EINPROGRESS) {
		t->connect_errors++;
		drop(c);
		return;
	}
	if (send_request(t, c) < 0) {
		t->connect_errors++;
		drop(c);
		return;
	}
	struct epoll_event e = {.events = c->sent ? EPOLLIN : EPOLLOUT, .data.ptr = c};
	if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
		fail("register a socket");
}

// complete reports whether the answer has all of its body. Without Content-Length it ends
// with the connection.
static int complete(struct connection *c) {
	c->answer[c->received] = 0;
	char *body = strstr(c->answer, "\r\n\r\n");
	if (body == NULL)
		return 0;
	char *field = strcasestr(c->answer, "\r\nContent-Length:");
	return field != NULL && field < body &&
	       c->received >= (size_t)(body + 4 - c->answer) + strtoul(field + 17, NULL, 10);
}

static void record(struct thread *t, struct connection *c) {
	if (t->requests == t->room) {
		t->room = t->room ? 2 * t->room : 1 << 16;
		t->latencies = realloc(t->latencies, t->room * sizeof *t->latencies);
		if (t->latencies == NULL)
			fail("store latencies");
	}
	t->latencies[t->requests++] = (uint32_t)(now_us() - c->start);
	if (strncmp(c->answer, "HTTP/1.1 2", 10) != 0 && strncmp(c->answer, "HTTP/1.1 3", 10) != 0)
		t->status_errors++;
}

// receive reads from a connection, and reports whether its request has ended.
static int receive(struct thread *t, struct connection *c) {
	ssize_t n = recv(c->fd, c->answer + c->received, sizeof c->answer - 1 - c->received, 0);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n > 0) {
		c->received += (size_t)n;
		if (!complete(c)) {
			if (c->received < sizeof c->answer - 1)
				return 0;
			t->read_errors++; // too long
			return 1;
		}
	}
	c->answer[c->received] = 0;
	// An end of the connection ends an answer without Content-Length only.
	char *body = strstr(c->answer, "\r\n\r\n");
	if (n < 0 || body == NULL || (n == 0 && strcasestr(c->answer, "\r\nContent-Length:") != NULL))
		t->read_errors++;
	else
		record(t, c);
	return 1;
}

// advance handles an event of a connection, and reports whether its request has ended.
static int advance(struct thread *t, struct connection *c) {
	if (c->sent)
		return receive(t, c);
	if (send_request(t, c) < 0) {
		t->connect_errors++;
		return 1;
	}
	if (c->sent) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
		if (epoll_ctl(t->epoll, EPOLL_CTL_MOD, c->fd, &e) < 0)
			fail("register a socket");
	}
	return 0;
}

static void *run(void *argument) {
	struct thread *t = argument;
	struct epoll_event events[256];
	for (int i = 0; i < t->connections; i++)
		open_connection(t, &t->all[i]);
	int64_t checked = now_us();
	for (;;) {
		int n = epoll_wait(t->epoll, events, 256, check_us / 1000);
		if (n < 0 && errno != EINTR)
			fail("wait for events");
		int64_t now = now_us();
		if (now >= end)
			return NULL;
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;
			if (advance(t, c)) {
				drop(c);
				open_connection(t, c);
			}
		}
		if (now - checked < check_us)
			continue;
		checked = now;
		for (int i = 0; i < t->connections; i++) {
			struct connection *c = &t->all[i];
			if (c->fd >= 0 && now - c->opened < timeout_us)
				continue;
			if (c->fd >= 0)
				t->timeouts++;
			drop(c);
			open_connection(t, c);
		}
	}
}

static int compare(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static uint32_t percentile(const uint32_t *sorted, size_t count, double part) {
	if (count == 0)
		return 0;
	size_t i = (size_t)(part * (double)count);
	return sorted[i < count ? i : count - 1];
}

static void prepare(struct thread *t, int connections, int seed, int index) {
	t->connections = connections;
	t->tokens = (uint64_t)index * 1000000000000; // threads share the seed
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0)
		fail("create an epoll instance");
	t->all = calloc((size_t)connections, sizeof *t->all);
	if (t->all == NULL)
		fail("store connections");
	t->head = (size_t)snprintf(t->request, sizeof t->request,
				   "GET /.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SC%08d", seed);
	t->length = t->head + token_digits + sizeof tail - 1;
	memcpy(t->request + t->head + token_digits, tail, sizeof tail - 1);
}

static void merge(struct thread *into, struct thread *t) {
	into->latencies = realloc(into->latencies, (into->requests + t->requests + 1) * sizeof *t->latencies);
	if (into->latencies == NULL)
		fail("store latencies");
	memcpy(into->latencies + into->requests, t->latencies, t->requests * sizeof *t->latencies);
	into->requests += t->requests;
	into->connect_errors += t->connect_errors;
	into->read_errors += t->read_errors;
	into->status_errors += t->status_errors;
	into->timeouts += t->timeouts;
}

int main(int argc, char **argv) {
	if (argc != 6) {
		fprintf(stderr, "usage: client ADDRESS PORT CONNECTIONS MILLISECONDS SEED\n");
		return 2;
	}
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)atoi(argv[2]));
	int connections = atoi(argv[3]), milliseconds = atoi(argv[4]), seed = atoi(argv[5]);
	if (inet_pton(AF_INET, argv[1], &server.sin_addr) != 1 || connections < 1 || milliseconds < 1) {
		fprintf(stderr, "client: invalid arguments\n");
		return 2;
	}
	static struct thread threads[max_threads];
	int count = connections < max_threads ? connections : max_threads;
	for (int i = 0; i < count; i++)
		prepare(&threads[i], connections / count + (i < connections % count), seed, i);
	int64_t begin = now_us();
	end = begin + (int64_t)milliseconds * 1000;
	for (int i = 0; i < count; i++)
		if ((errno = pthread_create(&threads[i].id, NULL, run, &threads[i])) != 0)
			fail("start a thread");
	static struct thread sum;
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		merge(&sum, &threads[i]);
	}
	long elapsed = (long)(now_us() - begin);
	qsort(sum.latencies, sum.requests, sizeof *sum.latencies, compare);
	printf("bench requests %zu\nbench microseconds %ld\n", sum.requests, elapsed);
	printf("bench p50 %u\nbench p99 %u\nbench p999 %u\n", percentile(sum.latencies, sum.requests, 0.5),
	       percentile(sum.latencies, sum.requests, 0.99), percentile(sum.latencies, sum.requests, 0.999));
	printf("bench connect %ld\nbench read %ld\nbench status %ld\nbench timeout %ld\n", sum.connect_errors,
	       sum.read_errors, sum.status_errors, sum.timeouts);
	return 0;
}
