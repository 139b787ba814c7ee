// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// View is the device that shows a page.
type View struct {
	Width, Height int
	Dark          bool   // prefers-color-scheme
	Media         string // "print" for paper; empty: a screen
	Scripts       bool   // run JavaScript
}

// Page is a page that was loaded.
type Page struct {
	browser *Browser
	session string
	view    View

	mu       sync.Mutex
	requests []string
	messages []string
	loaded   chan struct{}
}

// Open shows the file at a path.
func (b *Browser) Open(ctx context.Context, path string, v View) (*Page, error) {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "", "Target.createTarget", parameters{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	attach := parameters{"targetId": target.ID, "flatten": true}
	if err := b.call(ctx, "", "Target.attachToTarget", attach, &session); err != nil {
		return nil, err
	}
	p := &Page{browser: b, session: session.ID, view: v, loaded: make(chan struct{}, 1)}
	b.mu.Lock()
	b.events[p.session] = p.handle
	b.mu.Unlock()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	for _, c := range []struct {
		method     string
		parameters parameters
	}{
		{"Page.enable", nil},
		{"Network.enable", nil},
		{"Runtime.enable", nil},
		{"Log.enable", nil},
		{"Emulation.setDeviceMetricsOverride", parameters{
			"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false,
		}},
		{"Emulation.setEmulatedMedia", parameters{
			"media": v.Media, "features": []parameters{{"name": "prefers-color-scheme", "value": scheme}},
		}},
		{"Emulation.setScriptExecutionDisabled", parameters{"value": !v.Scripts}},
		{"Page.navigate", parameters{"url": "file://" + path}},
	} {
		if err := p.call(ctx, c.method, c.parameters, nil); err != nil {
			return nil, err
		}
	}
	select {
	case <-p.loaded:
		return p, nil
	case <-b.done:
		return nil, fmt.Errorf("load %s: Chromium has ended", path)
	case <-ctx.Done():
		return nil, fmt.Errorf("load %s: %w", path, ctx.Err())
	}
}

type parameters map[string]any

func (p *Page) call(ctx context.Context, method string, given parameters, result any) error {
	if given == nil {
		given = parameters{}
	}
	return p.browser.call(ctx, p.session, method, given, result)
}

// handle records requests and messages.
func (p *Page) handle(method string, text json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		var e struct {
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		_ = json.Unmarshal(text, &e) // an empty URL is reported too
		p.requests = append(p.requests, e.Request.URL)
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		p.messages = append(p.messages, string(text))
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
	}
}

// Requests returns the URLs that the page requested, with its own.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Messages returns what the console shows.
func (p *Page) Messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages
}

// Document returns the document as the browser parsed it.
func (p *Page) Document(ctx context.Context) (string, error) {
	root, err := p.root(ctx)
	if err != nil {
		return "", err
	}
	var html struct {
		Text string `json:"outerHTML"`
	}
	err = p.call(ctx, "DOM.getOuterHTML", parameters{"nodeId": root}, &html)
	return html.Text, err
}

// root returns the node of the whole document.
func (p *Page) root(ctx context.Context) (int, error) {
	var document struct {
		Root struct {
			ID int `json:"nodeId"`
		} `json:"root"`
	}
	err := p.call(ctx, "DOM.getDocument", parameters{"depth": 0}, &document)
	return document.Root.ID, err
}

// Size returns the width and height of the whole document.
func (p *Page) Size(ctx context.Context) (width, height int, err error) {
	var metrics struct {
		Content struct {
			Width  float64 `json:"width"`
			Height float64 `json:"height"`
		} `json:"cssContentSize"`
	}
	err = p.call(ctx, "Page.getLayoutMetrics", nil, &metrics)
	return int(metrics.Content.Width), int(metrics.Content.Height), err
}

// Box is the place of an element in a document, in pixels.
type Box struct{ X, Y, Width, Height float64 }

// Boxes returns the boxes of the elements that a selector matches and that are displayed.
func (p *Page) Boxes(ctx context.Context, selector string) ([]Box, error) {
	root, err := p.root(ctx)
	if err != nil {
		return nil, err
	}
	var found struct {
		IDs []int `json:"nodeIds"`
	}
	given := parameters{"nodeId": root, "selector": selector}
	if err := p.call(ctx, "DOM.querySelectorAll", given, &found); err != nil {
		return nil, err
	}
	var all []Box
	for _, id := range found.IDs {
		var quads struct {
			Quads [][8]float64 `json:"quads"` // of each line of an element, relative to the view
		}
		if err := p.call(ctx, "DOM.getContentQuads", parameters{"nodeId": id}, &quads); err != nil {
			return nil, err
		}
		for i, q := range quads.Quads {
			if i == 0 {
				all = append(all, Box{X: q[0], Y: q[1], Width: q[2] - q[0], Height: q[5] - q[1]})
			}
		}
	}
	return all, nil
}

// Node is a node of the accessibility tree, as a screen reader gets it.
type Node struct {
	Role, Name string
}

// Accessible returns the nodes of the accessibility tree that are not ignored.
func (p *Page) Accessible(ctx context.Context) ([]Node, error) {
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	if err := p.call(ctx, "Accessibility.getFullAXTree", nil, &tree); err != nil {
		return nil, err
	}
	var all []Node
	for _, n := range tree.Nodes {
		if !n.Ignored {
			all = append(all, Node{fmt.Sprint(n.Role.Value), fmt.Sprint(n.Name.Value)})
		}
	}
	return all, nil
}

// Screenshot returns a PNG of the first height pixels; 0: of the whole document.
func (p *Page) Screenshot(ctx context.Context, height int) ([]byte, error) {
	if height == 0 {
		var err error
		if _, height, err = p.Size(ctx); err != nil {
			return nil, err
		}
	}
	var picture struct {
		Data []byte `json:"data"` // base64
	}
	err := p.call(ctx, "Page.captureScreenshot", parameters{
		"format": "png", "captureBeyondViewport": true,
		"clip": parameters{"x": 0, "y": 0, "width": p.view.Width, "height": height, "scale": 1},
	}, &picture)
	return picture.Data, err
}
