// The difference of two texts, for people: unified, with three lines around each change.
package main

import (
	"fmt"
	"strings"
)

const (
	diffAround = 3
	diffMax    = 4 << 20 // cells of the table; larger texts are shown as one change
)

// diffText is how one text becomes the other; empty when they are the same.
func diffText(before, after string) string {
	if before == after {
		return ""
	}
	old, fresh := linesOf(before), linesOf(after)
	head := 0
	for head < len(old) && head < len(fresh) && old[head] == fresh[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(fresh)-head && old[len(old)-1-tail] == fresh[len(fresh)-1-tail] {
		tail++
	}
	marks := make([]byte, 0, len(old)+len(fresh)) // ' ' both, '-' old, '+' fresh
	marks = append(marks, strings.Repeat(" ", head)...)
	marks = append(marks, changedMarks(old[head:len(old)-tail], fresh[head:len(fresh)-tail])...)
	marks = append(marks, strings.Repeat(" ", tail)...)
	return hunks(marks, old, fresh)
}

// linesOf splits a text; a last line without its end says so.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		return lines[:len(lines)-1]
	}
	lines[len(lines)-1] += "\n\\ no newline at the end"
	return lines
}

// changedMarks is the shortest way from one list of lines to the other.
func changedMarks(old, fresh []string) []byte {
	rows, cols := len(old), len(fresh)
	if rows*cols > diffMax {
		return []byte(strings.Repeat("-", rows) + strings.Repeat("+", cols))
	}
	common := make([][]int, rows+1) // lines in common from here on
	for row := range common {
		common[row] = make([]int, cols+1)
	}
	for row := rows - 1; row >= 0; row-- {
		for col := cols - 1; col >= 0; col-- {
			if old[row] == fresh[col] {
				common[row][col] = common[row+1][col+1] + 1
			} else {
				common[row][col] = max(common[row+1][col], common[row][col+1])
			}
		}
	}
	var marks []byte
	row, col := 0, 0
	for row < rows || col < cols {
		switch {
		case row < rows && col < cols && old[row] == fresh[col]:
			marks, row, col = append(marks, ' '), row+1, col+1
		case row < rows && (col == cols || common[row+1][col] >= common[row][col+1]):
			marks, row = append(marks, '-'), row+1
		default:
			marks, col = append(marks, '+'), col+1
		}
	}
	return marks
}

func hunks(marks []byte, old, fresh []string) string {
	near := make([]bool, len(marks))
	for at, mark := range marks {
		for close := max(0, at-diffAround); mark != ' ' && close <= min(len(marks)-1, at+diffAround); close++ {
			near[close] = true
		}
	}
	var out strings.Builder
	row, col := 0, 0
	for at := 0; at < len(marks); {
		if !near[at] {
			at, row, col = at+1, row+1, col+1
			continue
		}
		var lines strings.Builder
		fromRow, fromCol := row, col
		for ; at < len(marks) && near[at]; at++ {
			switch marks[at] {
			case '-':
				lines.WriteString("-" + old[row] + "\n")
				row++
			case '+':
				lines.WriteString("+" + fresh[col] + "\n")
				col++
			default:
				lines.WriteString(" " + old[row] + "\n")
				row, col = row+1, col+1
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n%s", hunkRange(fromRow, row), hunkRange(fromCol, col), lines.String())
	}
	return out.String()
}

func hunkRange(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	if to-from == 1 {
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}
