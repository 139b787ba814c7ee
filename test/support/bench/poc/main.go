// SPDX-License-Identifier: Apache-2.0

// Command poc behaves like the proof of concept that the service replaces
// (mvazquezc/cert-mgr-http01-proxy). It uses httputil.ReverseProxy with the default
// transport, compiles a regular expression for each request, logs each request, and has no
// timeouts. It exists for the benchmark.
package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
)

func main() {
	listen := flag.String("listen", "", "address and port")
	upstream := flag.String("upstream", "", "URL of the ingress")
	flag.Parse()
	if err := serve(*listen, *upstream); err != nil {
		log.Fatalln("poc:", err)
	}
}

func serve(listen, upstream string) error {
	target, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	handler := func(w http.ResponseWriter, r *http.Request) {
		challenge := regexp.MustCompile(`^/\.well-known/acme-challenge/.*`)
		if !challenge.MatchString(r.URL.Path) {
			http.Error(w, "Only /.well-known/acme-challenge/* is allowed", http.StatusForbidden)
			return
		}
		log.Printf("forwarding %s", r.URL.Path) //nolint:gosec // as the proof of concept does
		proxy.ServeHTTP(w, r)
	}
	return http.ListenAndServe(listen, http.HandlerFunc(handler)) //nolint:gosec // without timeouts, as the proof of concept
}
