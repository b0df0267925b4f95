package results

// AppendCells opens a file of cells for appending, and makes it if it is not there. The
// cells that it has already are returned: a file that holds something else is refused.
func AppendCells(name string) (*Lines[Cell], []Cell, error) { return appendLines[Cell](name) }

// ReadCells reads the cells of a file. A line that was cut short is left out.
func ReadCells(name string) ([]Cell, error) { return fileOf[Cell](name) }
