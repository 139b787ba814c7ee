// SPDX-License-Identifier: Apache-2.0
//
// upstream answers each request with the same text, like a router's, over connections that
// stay open. Usage: upstream ADDRESS PORT BODY. Clients, proxy and upstream share the
// cores, so it does as little as possible: epoll_wait, and recv and send for each request.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { max_fd = 1 << 16, backlog = 4096 };

static char answer[1024];
static size_t answer_length;

// matched has the number of bytes of the blank line that ends a request head, for each
// descriptor: a head may arrive in parts.
static uint8_t matched[max_fd];

static void fail(const char *act) {
	fprintf(stderr, "upstream: cannot %s: %s\n", act, strerror(errno));
	exit(1);
}

static void accept_all(int epoll, int listener) {
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (fd >= max_fd) {
			close(fd);
			continue;
		}
		matched[fd] = 0;
		struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
			fail("register a connection");
	}
}

// answer_requests reads from a connection and answers each complete head.
static void answer_requests(int fd) {
	static char request[16384];
	static const char end[] = "\r\n\r\n";
	ssize_t n = recv(fd, request, sizeof request - 1, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		close(fd);
		return;
	}
	request[n] = 0;
	for (ssize_t i = 0; i < n; i++) {
		if (request[i] == end[matched[fd]])
			matched[fd]++;
		else
			matched[fd] = request[i] == '\r';
		if (matched[fd] < 4)
			continue;
		matched[fd] = 0;
		if (send(fd, answer, answer_length, MSG_NOSIGNAL) != (ssize_t)answer_length) {
			close(fd);
			return;
		}
	}
	if (matched[fd] == 0 && strcasestr(request, "\r\nConnection: close\r\n") != NULL)
		close(fd);
}

int main(int argc, char **argv) {
	struct sockaddr_in at = {.sin_family = AF_INET};
	if (argc != 4 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) {
		fprintf(stderr, "usage: upstream ADDRESS PORT BODY\n");
		return 2;
	}
	at.sin_port = htons((uint16_t)atoi(argv[2]));
	answer_length = (size_t)snprintf(answer, sizeof answer,
					 "HTTP/1.1 200 OK\r\nServer: upstream\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
					 "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
					 strlen(argv[3]), argv[3]);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
	    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
	    bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, backlog) < 0)
		fail("listen");
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) < 0)
		fail("register the listener");
	for (;;) {
		struct epoll_event events[256];
		int n = epoll_wait(epoll, events, 256, -1);
		if (n < 0 && errno != EINTR)
			fail("wait for events");
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				accept_all(epoll, listener);
			else
				answer_requests(events[i].data.fd);
		}
	}
}
