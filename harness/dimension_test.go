package harness

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// Each field of a configuration and of a load is a dimension: a run that has another value
// in it is no repetition of the first. The group is that of a run, and not stored.
func TestEachSettingIsADimension(t *testing.T) {
	distinct := func(fields ...any) string {
		config, err := json.Marshal(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		l, _ := fields[1].(results.Load)
		key := ""
		for _, d := range results.Dimensions() {
			key += d.Value(&results.Run{Config: config, Load: l}) + " "
		}
		return key
	}
	eachField(t, reflect.ValueOf(new(lock.Config)).Elem(), func(name string, root reflect.Value) {
		if name != "Group" && distinct(root.Interface(), nil) == distinct(lock.Config{}, nil) {
			t.Errorf("Config.%s is no dimension", name)
		}
	})
	eachField(t, reflect.ValueOf(new(results.Load)).Elem(), func(name string, root reflect.Value) {
		if distinct(lock.Config{}, root.Interface()) == distinct(lock.Config{}, results.Load{}) {
			t.Errorf("Load.%s is no dimension", name)
		}
	})
}

// eachField calls f for each plain field of the struct root, which has no other value
// than 0 but in it.
func eachField(t *testing.T, root reflect.Value, f func(name string, root reflect.Value)) {
	t.Helper()
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			field, info := v.Field(i), v.Type().Field(i)
			if info.Tag.Get("json") == "-" {
				continue
			}
			name := prefix + info.Name
			switch {
			case field.Type() == reflect.TypeFor[results.Dist]():
				field.Set(reflect.ValueOf(results.Dist{Mean: 7}))
			case field.Kind() == reflect.Struct:
				walk(name+".", field)
				continue
			case field.CanInt():
				field.SetInt(7)
			case field.CanFloat():
				field.SetFloat(0.7)
			case field.Kind() == reflect.Bool:
				field.SetBool(true)
			case field.Kind() == reflect.String:
				field.SetString("x")
			default:
				t.Fatalf("%s is of type %v", name, field.Type())
			}
			f(name, root)
			field.SetZero()
		}
	}
	walk("", root)
}
