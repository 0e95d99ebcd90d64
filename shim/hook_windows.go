// How the hook writes its answer on Windows.
package main

import "os"

func printHook(stream string, text []byte) error {
	to := os.Stdout
	if stream == "stderr" {
		to = os.Stderr
	}
	if _, err := to.Write(text); err != nil {
		return err
	}
	return to.Close()
}
