// SPDX-License-Identifier: Apache-2.0

// Command goroutines has as many goroutines as the next line of its standard input requests, and
// prints the runtime's own count.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		runtime.GC() // starts the collector's own goroutines, which do not count
		var group sync.WaitGroup
		end := make(chan struct{})
		for range n {
			group.Add(1)
			go func() {
				defer group.Done()
				<-end
			}()
		}
		fmt.Println(runtime.NumGoroutine())
		lines.Scan()
		close(end)
		group.Wait()
		fmt.Println("ended")
	}
}
